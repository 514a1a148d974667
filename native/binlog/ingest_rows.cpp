// The ingest's table maps and rows events.
#include <algorithm>

#include "binlog/ingest.hpp"
#include "binlog/rows_partial.hpp"

namespace relay {
namespace {

constexpr size_t kMostIds = 4096;         // the source does not reuse an id after it closed the table
constexpr size_t kMostKnown = 1 << 17;    // tables that are known by name,
constexpr size_t kMostColumns = 1 << 19;  // and their columns
constexpr size_t kTableId = 6;            // bytes of the id at the beginning of a TABLE_MAP
constexpr uint64_t kNoTable = 0xffffff;   // table id of a rows event that only ends a statement

// A table's name, with ASCII letters in lower case: a server with case-insensitive names maps tables in their stored
// case.
std::string folded(std::string_view schema, std::string_view name) {
  std::string out(schema);
  out += '\0';
  out += name;
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return out;
}

// The name in a TABLE_MAP after its id; empty if it is malformed.
std::string folded_name(Bytes map) {
  Reader in{map};
  in.skip(2);  // flags
  const std::string_view schema = in.take(in.u8()).text();
  in.skip(1);
  const std::string_view name = in.take(in.u8()).text();
  return in.ok() ? folded(schema, name) : std::string();
}

}  // namespace

std::shared_ptr<Ingest::Table> Ingest::new_table() const {
  auto table = std::make_shared<Table>();
  table->epoch = epoch_;
  return table;
}

std::shared_ptr<Ingest::Table> Ingest::new_table(Bytes definition, Bytes published, std::vector<bool> keep,
                                                 bool pending) {
  std::string error;
  auto parsed = Definition::parse(definition, &error);
  if (!parsed) throw StreamError("unsupported_column", "read a table definition", where(), error);
  if (!keep.empty() && keep.size() != parsed->columns.size())
    throw StreamError("unexpected", "define table " + parsed->name(), where(), "a mask of another number of columns");
  auto table = new_table();
  table->definition = std::move(parsed);
  table->keep = std::move(keep);
  table->use = std::make_shared<TableUse>(writer_, writer_.define(published, pending));
  return table;
}

void Ingest::put_table(uint64_t table_id, std::shared_ptr<Table> table) {
  last_ = nullptr;
  tables_[table_id] = Mapped{std::move(table)};
}

void Ingest::define(uint64_t table_id, Bytes definition, Bytes published, std::vector<bool> keep) {
  put_table(table_id, new_table(definition, published, std::move(keep), false));
}

JournalWriter::Handle Ingest::pending(uint64_t table_id, Bytes provisional, Bytes published, std::vector<bool> keep) {
  auto table = new_table(provisional, published, std::move(keep), true);
  put_table(table_id, table);
  return table->use->handle;
}

void Ingest::expect(Bytes map, Bytes definition, Bytes published, std::vector<bool> keep) {
  auto table = new_table(definition, published, std::move(keep), false);
  table->map = map.text();
  if (!folded_name(map).empty()) remember(table);
}

void Ingest::exclude(uint64_t table_id) {
  auto table = new_table();
  table->excluded = true;
  put_table(table_id, std::move(table));
}

void Ingest::accept_partial(uint64_t table_id) {
  if (find_mapped(table_id)) last_->table->partial = true;
}

// Sets `last_`, which is nullptr if no table has the id.
bool Ingest::find_mapped(uint64_t table_id) {
  if (!last_ || last_id_ != table_id) {
    auto found = tables_.find(table_id);
    last_ = found == tables_.end() ? nullptr : &found->second;
    last_id_ = table_id;
  }
  return last_ != nullptr;
}

bool Ingest::table_map(const Event& e, Attention* out) {
  if (group_.open && group_.mode == Mode::skip) return true;
  if (e.body.size < 8) malformed("a TABLE_MAP without a table");
  const uint64_t id = load_le(e.body.data, kTableId);
  const Bytes map = e.body.from(kTableId);
  if (find_mapped(id)) {
    Table& table = *last_->table;
    if (table.map.empty() && table.epoch == epoch_) {  // just defined
      table.map = map.text();
      remember(last_->table);
    }
  } else {
    last_ = find_known(id, map);
  }
  if (!last_ || last_->table->epoch != epoch_ || last_->table->map != map.text()) {
    last_ = nullptr;
    tables_.erase(id);
    forget_ids();
    ask(Asks::table, e, out);
    out->table_id = id;
    out->body = e.body.text();
    return false;
  }
  last_->statement = statement_;
  return true;
}

void Ingest::remember(const std::shared_ptr<Table>& table) {
  const auto columns = [](const Table& of) { return of.definition ? of.definition->columns.size() : 0; };
  if (known_.size() >= kMostKnown || known_columns_ + columns(*table) > kMostColumns) forget_known();
  std::shared_ptr<Table>& place = known_[folded_name(Bytes(table->map))];
  known_columns_ += columns(*table) - (place ? columns(*place) : 0);
  place = table;
}

// A table that the source has opened again, so that it has another id. nullptr if it may have changed.
Ingest::Mapped* Ingest::find_known(uint64_t id, Bytes map) {
  const auto found = known_.find(folded_name(map));
  if (found == known_.end() || found->second->epoch != epoch_ || found->second->map != map.text()) return nullptr;
  forget_ids();
  return &(tables_[id] = Mapped{found->second});
}

void Ingest::redefined(std::string_view schema, std::string_view name) {
  const std::string key = folded(schema, name);
  for (auto& [id, mapped] : tables_)
    if (folded_name(Bytes(mapped.table->map)) == key) mapped.table->epoch = epoch_ - 1;
  const auto found = known_.find(key);
  if (found != known_.end()) found->second->epoch = epoch_ - 1;
}

void Ingest::forget_known() {
  known_.clear();
  known_columns_ = 0;
}

// Forgets ids, if there are many.
void Ingest::forget_ids() {
  if (tables_.size() < kMostIds) return;
  for (auto mapped = tables_.begin(); mapped != tables_.end();)
    mapped = mapped->second.statement == statement_ ? std::next(mapped) : tables_.erase(mapped);
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
  if (!find_mapped(table_id)) malformed("rows of table " + std::to_string(table_id) + ", which was not mapped");
  if (last_->statement != statement_)
    malformed("rows of table " + std::to_string(table_id) + ", which this statement did not map");
  return *last_->table;
}

// Walks all rows before anything is appended.
bool Ingest::take_rows(const Event& e, const RowsHead& head, Table& table, Attention* out) {
  const Definition& definition = *table.definition;
  Bytes body = head.body;
  RowsBody parsed;
  if (!RowsBody::parse(body, head.kind, &parsed)) malformed("rows of " + definition.name() + " that cannot be read");
  if (head.compressed) {
    Packed packed;
    if (!Packed::parse(parsed.images, &packed)) malformed("compressed rows of " + definition.name());
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
      return ask_unknown(e, "a change within a JSON value of " + definition.name() + " that is not in the row", out);
    if (completed == Completed::malformed || whole.size() > limits_.event_bytes)
      malformed("changes within JSON values of " + definition.name() + " that do not fit them");
    scratch_ = std::move(whole);
    body = Bytes(scratch_);
    RowsBody::parse(body, head.kind, &parsed);
  }
  Walk walk = walk_rows(definition, parsed);
  if (!walk.ok) malformed("rows of " + definition.name() + " that do not fit its columns");
  if (!table.keep.empty()) {
    std::string copy;
    if (!copy_without(definition, head.kind, parsed, table.keep, &copy))
      malformed("rows of " + definition.name() + " that do not fit its columns");
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
