// The ingest's table maps and rows events.
#include <algorithm>

#include "binlog/ingest.hpp"
#include "binlog/rows_partial.hpp"

namespace relay {
namespace {

constexpr size_t kMostTables = 4096;     // the source does not reuse an id after it closed the table
constexpr uint64_t kNoTable = 0xffffff;  // table id of a rows event that only ends a statement

// Compares without case for ASCII letters. Other characters are equal only if their bytes are.
bool same_but_case(std::string_view a, std::string_view b) {
  auto low = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; };
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [low](char x, char y) { return low(x) == low(y); });
}

// Whether a TABLE_MAP's body names the table. A server with case-insensitive names maps tables in their stored case.
bool names_table(std::string_view body, std::string_view schema, std::string_view name) {
  constexpr size_t kNames = 8;  // offset after table id and flags
  Reader in{Bytes(body)};
  in.skip(kNames);
  std::string_view owner = in.take(in.u8()).text();
  in.skip(1);
  std::string_view table = in.take(in.u8()).text();
  return in.ok() && same_but_case(owner, schema) && same_but_case(table, name);
}

std::string name_of(const Definition& definition) { return definition.schema + "." + definition.table; }

}  // namespace

Ingest::Table& Ingest::put_table(uint64_t table_id, Bytes definition, std::vector<bool> keep) {
  std::string error;
  auto parsed = Definition::parse(definition, &error);
  if (!parsed) throw StreamError("unsupported_column", "read a table definition", where(), error);
  if (!keep.empty() && keep.size() != parsed->columns.size())
    throw StreamError("unexpected", "define table " + name_of(*parsed), where(), "a mask of another number of columns");
  last_ = nullptr;
  Table& table = tables_[table_id];
  table = Table();
  table.epoch = epoch_;
  table.definition = std::move(parsed);
  table.keep = std::move(keep);
  return table;
}

void Ingest::define(uint64_t table_id, Bytes definition, Bytes published, std::vector<bool> keep) {
  put_table(table_id, definition, std::move(keep)).use = std::make_shared<TableUse>(writer_, writer_.define(published));
}

JournalWriter::Handle Ingest::pending(uint64_t table_id, Bytes provisional, Bytes published, std::vector<bool> keep) {
  Table& table = put_table(table_id, provisional, std::move(keep));
  table.use = std::make_shared<TableUse>(writer_, writer_.define(published, true));
  return table.use->handle;
}

void Ingest::exclude(uint64_t table_id) {
  last_ = nullptr;
  Table& table = tables_[table_id];
  table = Table();
  table.epoch = epoch_;
  table.excluded = true;
}

void Ingest::accept_partial(uint64_t table_id) {
  auto found = tables_.find(table_id);
  if (found != tables_.end()) found->second.partial = true;
}

bool Ingest::table_map(const Event& e, Attention* out) {
  if (group_.open && group_.mode == Mode::skip) return true;
  if (e.body.size < 8) malformed("a TABLE_MAP without a table");
  uint64_t id = load_le(e.body.data, 6);
  if (!last_ || last_id_ != id) {
    auto found = tables_.find(id);
    last_ = found == tables_.end() ? nullptr : &found->second;
    last_id_ = id;
  }
  Table* table = last_;
  if (table && table->body.empty() && table->epoch == epoch_) table->body = e.body.text();  // just defined
  if (!table || table->epoch != epoch_ || table->body != e.body.text()) {
    last_ = nullptr;
    tables_.erase(id);
    if (tables_.size() >= kMostTables) forget_tables();
    ask(Asks::table, e, out);
    out->table_id = id;
    out->body = e.body.text();
    return false;
  }
  table->statement = statement_;
  return true;
}

void Ingest::redefined(std::string_view schema, std::string_view name) {
  for (auto& [id, table] : tables_)
    if (names_table(table.body, schema, name)) table.epoch = epoch_ - 1;
}

void Ingest::forget_tables() {
  for (auto table = tables_.begin(); table != tables_.end();)
    table = table->second.statement == statement_ ? std::next(table) : tables_.erase(table);
}

bool Ingest::rows(const Event& e, Attention* out) {
  RowsHead head;
  if (!RowsHead::parse(e.type, e.body, &head)) malformed("a rows event that cannot be read");
  bool skipped = (group_.open && group_.mode == Mode::skip) || answer_ == Answer::skip;
  if (!skipped && head.table_id != kNoTable) {
    Table& table = mapped(head.table_id);
    if (!table.excluded && !take_rows(e, head, table, out)) return false;
  }
  if (head.statement_end) ++statement_;
  return true;
}

Ingest::Table& Ingest::mapped(uint64_t table_id) {
  if (!last_ || last_id_ != table_id) {
    auto found = tables_.find(table_id);
    last_ = found == tables_.end() ? nullptr : &found->second;
    last_id_ = table_id;
  }
  if (!last_) malformed("rows of table " + std::to_string(table_id) + ", which was not mapped");
  if (last_->statement != statement_)
    malformed("rows of table " + std::to_string(table_id) + ", which this statement did not map");
  return *last_;
}

// Walks all rows before anything is appended.
bool Ingest::take_rows(const Event& e, const RowsHead& head, Table& table, Attention* out) {
  const Definition& definition = *table.definition;
  Bytes body = head.body;
  RowsBody parsed;
  if (!RowsBody::parse(body, head.kind, &parsed)) malformed("rows of " + name_of(definition) + " that cannot be read");
  if (head.compressed) {
    Packed packed;
    if (!Packed::parse(parsed.images, &packed)) malformed("compressed rows of " + name_of(definition));
    scratch_.assign(body.text().substr(0, static_cast<size_t>(parsed.images.data - body.data)));
    scratch_ += inflated(Algorithm::zlib, packed.data, packed.size);
    body = Bytes(scratch_);
    RowsBody::parse(body, head.kind, &parsed);  // cannot fail: only the images differ from the first parse
  }
  if (!parsed.full && !table.partial) {
    ask(Asks::partial, e, out);
    out->table_id = head.table_id;
    return false;
  }
  if (head.partial) {
    std::string whole;
    Completed completed = complete_rows(definition, body, table.keep, &whole);
    if (completed == Completed::lacking)
      return ask_unknown(e, "a change within a JSON value of " + name_of(definition) + " that is not in the row", out);
    if (completed == Completed::malformed || whole.size() > limits_.event_bytes)
      malformed("changes within JSON values of " + name_of(definition) + " that do not fit them");
    scratch_ = std::move(whole);
    body = Bytes(scratch_);
    RowsBody::parse(body, head.kind, &parsed);
  }
  Walk walk = walk_rows(definition, parsed);
  if (!walk.ok) malformed("rows of " + name_of(definition) + " that do not fit its columns");
  if (!table.keep.empty()) {
    std::string copy;
    if (!copy_without(definition, head.kind, parsed, table.keep, &copy))
      malformed("rows of " + name_of(definition) + " that do not fit its columns");
    scratch_ = std::move(copy);
    body = Bytes(scratch_);
  }
  if (walk.rows) append_rows(table, head, e.timestamp, walk.rows, body);
  return true;
}

void Ingest::append_rows(Table& table, const RowsHead& head, uint32_t timestamp, uint32_t rows, Bytes body) {
  if (!group_.open) open_group(Gtid());
  if (group_.mode == Mode::journal) {
    writer_.rows(table.use->handle, head.kind, end_, timestamp, rows, body);
    count_rows(head.kind, rows);
    return;
  }
  if (prepared_bytes_ + collected_->memory() + body.size > limits_.prepared_bytes) collected_->spill();
  collected_->add(table.use, {table.use->handle, head.kind, end_, timestamp, rows, body});
}

void Ingest::count_rows(RowKind kind, uint64_t rows) {
  uint64_t& count = kind == RowKind::insert   ? counters_->rows_insert
                    : kind == RowKind::update ? counters_->rows_update
                                              : counters_->rows_delete;
  count += rows;
}

std::string Ingest::inflated(Algorithm algorithm, Bytes data, uint64_t size) {
  if (size > limits_.event_bytes) malformed("a compressed event that says it holds " + std::to_string(size) + " bytes");
  std::string out;
  if (!inflate_.call(inflate_.context, algorithm, data, size, &out) || out.size() != size)
    malformed("a compressed event that does not hold what it says");
  return out;
}

}  // namespace relay
