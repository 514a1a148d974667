// The ingest's statements: it handles those that begin and end groups, and XA transactions; it needs a reply to all
// others.
#include <algorithm>

#include "binlog/ingest.hpp"

namespace relay {
namespace {

constexpr size_t kLongestXid = 300;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

bool same_word(std::string_view text, std::string_view word) {
  return text.size() == word.size() &&
         std::equal(text.begin(), text.end(), word.begin(), [](char a, char b) { return lower(a) == b; });
}

std::string_view trimmed(std::string_view text) {
  size_t from = text.find_first_not_of(" \t\r\n");
  return from == text.npos ? std::string_view() : text.substr(from, text.find_last_not_of(" \t\r\n;") - from + 1);
}

// Removes the word from the front, if the text begins with it as a whole word.
bool take_word(std::string_view* text, std::string_view word) {
  if (!same_word(text->substr(0, word.size()), word)) return false;
  std::string_view rest = text->substr(word.size());
  if (!rest.empty() && rest[0] != ' ') return false;
  *text = trimmed(rest);
  return true;
}

bool ends_with_words(std::string_view text, std::string_view words) {
  return text.size() > words.size() && same_word(text.substr(text.size() - words.size()), words);
}

// The server writes an xid in only one form; any other text did not come from it.
std::string xid_of(std::string_view text) {
  std::string xid;
  for (char c : text) xid += lower(c);
  bool plain = xid.size() <= kLongestXid && xid.find_first_not_of("0123456789abcdefx',") == xid.npos;
  return plain ? xid : std::string();
}

}  // namespace

bool Ingest::query(const Event& e, Attention* out) {
  QueryBody body;
  if (!QueryBody::parse(e.body, &body)) malformed("a QUERY that cannot be read");
  if (e.type == kQueryEvent) return statement(e, body, body.statement.text(), out);
  Packed packed;
  if (!Packed::parse(body.statement, &packed)) malformed("a compressed QUERY that cannot be read");
  std::string text = inflated(Algorithm::zlib, packed.data, packed.size);
  return statement(e, body, text, out);
}

bool Ingest::begin() {
  if (group_.open && group_.begun && !group_.gtid) abandon_group();
  if (!group_.open) open_group(Gtid());
  group_.begun = true;
  return true;
}

bool Ingest::statement(const Event& e, const QueryBody& query, std::string_view text, Attention* out) {
  if (text == "BEGIN") return begin();  // of almost all transactions
  std::string_view words = trimmed(text);
  if (same_word(words, "begin")) return begin();
  if (same_word(words, "commit")) {
    end_group(e);
    return true;
  }
  if (same_word(words, "rollback")) {
    writer_.rollback();
    end_group(e);
    return true;
  }
  if (!group_.open) open_group(Gtid());
  if (take_word(&words, "savepoint")) return true;
  if (take_word(&words, "xa")) {
    if (take_word(&words, "start") || take_word(&words, "begin")) {
      collect_group();
      return true;
    }
    if (take_word(&words, "end")) return true;
    bool commits = take_word(&words, "commit");
    if (commits || take_word(&words, "rollback")) return xa_end(e, commits, xid_of(words), text, out);
  }
  bool left_open = ends_with_words(trimmed(text), "start transaction");  // MySQL's CREATE TABLE ... SELECT: rows follow
  if (group_.mode == Mode::skip) {
    if (left_open) group_.begun = true;
    if (!group_.begun) end_group(e);
    return true;
  }
  if (answer_ == Answer::none) {
    ask(Asks::query, e, out);
    out->body = e.body.text().substr(0, e.body.size - query.statement.size);
    out->body += text;
    out->schema = query.schema;
    out->statement = text;
    out->unfinished = group_.unfinished;
    if (take_word(&words, "rollback")) {  // to a savepoint: undoes rows that were already read
      out->asks = Asks::unknown;
      out->message = "ROLLBACK TO a savepoint";
    }
    return false;
  }
  if (answer_ == Answer::record) {
    writer_.ddl(end_, e.timestamp, query.schema, recorded_.statement, Bytes(recorded_.dialect),
                Bytes(recorded_.tables));
    answer_ = Answer::recorded;
  }
  if (left_open) group_.begun = true;
  if (!group_.begun) end_group(e);
  return true;
}

// Keeps rows until XA PREPARE. Does so also for a group before the journal's position, if it is still prepared.
void Ingest::collect_group() {
  group_.begun = true;
  if (group_.mode == Mode::collect) return;
  group_.journaled = group_.mode == Mode::skip && log_.knows(group_.gtid.text(), file_, group_.start);
  if (group_.mode != Mode::journal && !group_.journaled) return;
  group_.mode = Mode::collect;
  collected_ = std::make_unique<PreparedRows>(spill_);
}

void Ingest::xa_prepared(const Event& e) {
  XaPrepareBody body;
  if (!XaPrepareBody::parse(e.body, &body)) malformed("an XA PREPARE that cannot be read");
  bool collected = group_.mode == Mode::collect;
  if (collected && prepared_bytes_ + collected_->memory() > limits_.prepared_bytes) collected_->spill();
  if (collected && body.one_phase) append_prepared(*collected_);
  if (collected && !body.one_phase && !group_.journaled)
    log_.add({body.xid, file_, group_.start, group_.gtid.text()}, writer_.flushed());
  if (group_.open && group_.mode != Mode::skip && !group_.journaled) commit_group(e);
  if (collected && body.one_phase) count_prepared(*collected_);
  if (collected && !body.one_phase) {
    prepared_bytes_ += collected_->memory();
    auto& entry = prepared_[body.xid];
    if (entry) prepared_bytes_ -= entry->memory();
    entry = std::move(collected_);
  }
  collected_.reset();
  group_ = Group();
}

// Appends the rows of a committed transaction to the journal, in the group of the XA COMMIT.
bool Ingest::xa_end(const Event& e, bool commits, const std::string& xid, std::string_view text, Attention* out) {
  auto found = prepared_.find(xid);
  if (commits && group_.mode == Mode::journal) {
    if (found == prepared_.end() && answer_ != Answer::skip) {
      ask(Asks::unknown, e, out);
      out->statement = text;
      out->message = "XA COMMIT of a transaction that was prepared before this stream began";
      return false;
    }
    if (found != prepared_.end()) append_prepared(*found->second);
  }
  bool counts = commits && group_.mode == Mode::journal && found != prepared_.end();
  end_group(e);
  if (counts) count_prepared(*found->second);
  if (found != prepared_.end()) {
    prepared_bytes_ -= found->second->memory();
    prepared_.erase(found);
  }
  log_.finish(xid, writer_.end(), writer_.flushed());
  return true;
}

void Ingest::append_prepared(const PreparedRows& group) {
  writer_.rollback();  // undoes an attempt that found the disk full
  group.each([this](const PreparedRows::Rows& prepared) {
    writer_.rows(prepared.table, prepared.kind, prepared.end_position, prepared.timestamp, prepared.rows,
                 prepared.body);
  });
}

void Ingest::count_prepared(const PreparedRows& group) {
  group.count([this](RowKind kind, uint64_t rows) { count_rows(kind, rows); });
}

}  // namespace relay
