// Scanning of frames for the CDC service.
#include "serve/cdc_scan.hpp"

namespace relay {

namespace {

std::string source_of(const Gtid& gtid, const std::string& text) {
  return gtid.mariadb ? std::to_string(gtid.domain) : text.substr(0, text.rfind(':'));
}

}  // namespace

CdcScan::CdcScan(JournalReader& journal, uint64_t position) : journal_(journal) {
  begin_ = at_ = position ? position : journal_.first();
}

void CdcScan::find(std::string source, uint64_t number) {
  sought_ = std::move(source);
  sought_number_ = number;
}

bool CdcScan::read(uint64_t until, uint64_t max_bytes) {
  if (!begun_ && at_ < until) {
    FrameView commit;
    if (journal_.segment(at_) == at_ && journal_.torn(at_, until, &commit)) begin_ = at_ = commit.next;
    begun_ = true;
  }
  const uint64_t from = at_;
  while (at_ < until && at_ - from < max_bytes && !found_) {
    const FrameView view = journal_.frame(at_);
    pass(view);
    at_ = view.next;
    if (open_.images == 0 && open_statements_.empty()) begin_ = at_;
  }
  return at_ >= until || found_;
}

void CdcScan::pass(const FrameView& view) {
  switch (view.kind()) {
    case FrameKind::rows: {
      const auto rows = parsed<RowsFrame>(view);
      open_.images += rows.kind == RowKind::update ? 2 * uint64_t{rows.rows} : rows.rows;
      open_tables_.insert(table_of(rows.table, view));
      return;
    }
    case FrameKind::ddl: {
      const auto ddl = parsed<DdlFrame>(view);
      open_statements_.push_back(
          {view.position, std::string(ddl.schema), std::string(ddl.statement), std::string(ddl.tables.text()), {}, 0});
      return;
    }
    case FrameKind::commit: end(view); return;
    case FrameKind::gap: forget(); return;
    default: return;
  }
}

void CdcScan::end(const FrameView& view) {
  const auto commit = parsed<CommitFrame>(view);
  open_.gtid = commit.gtid;
  open_.server = commit.server;
  open_.timestamp = commit.timestamp;
  open_.tables.assign(open_tables_.begin(), open_tables_.end());
  touched_.insert(open_tables_.begin(), open_tables_.end());
  const auto gtid = Gtid::parse(open_.gtid);
  if (!gtid && !open_.gtid.empty()) throw_corrupt(view, "has a GTID that cannot be read");
  if (gtid && *gtid) {
    if (gtid->mariadb) open_.server = gtid->server;
    std::string source = source_of(*gtid, open_.gtid);
    found_ = gtid->number == sought_number_ && source == sought_;
    if (!gtid->mariadb && sources_.insert(source).second) new_sources_.push_back(std::move(source));
  }
  for (CdcDefinition& defined : open_definitions_) {
    defined.gtid = open_.gtid;
    defined.server = open_.server;
    definitions_.push_back(std::move(defined));
  }
  open_definitions_.clear();
  for (CdcStatement& statement : open_statements_) {
    statement.gtid = open_.gtid;
    statement.server = open_.server;
    statements_.push_back(std::move(statement));
  }
  open_statements_.clear();
  last_ = std::exchange(open_, {});
  open_tables_.clear();
}

// Frames before a gap, if their transaction has no end, belong to no transaction.
void CdcScan::forget() {
  open_ = {};
  open_tables_.clear();
  open_statements_.clear();
}

uint32_t CdcScan::table_of(uint64_t frame, const FrameView& view) {
  if (view.segment != segment_) frames_.clear();
  segment_ = view.segment;
  if (const auto known = frames_.find(frame); known != frames_.end()) return known->second;
  const std::shared_ptr<const Definition> definition = journal_.definition(frame);
  const std::pair name(definition->schema, definition->table);
  const auto [found, added] = tables_.try_emplace(name, static_cast<uint32_t>(names_.size()));
  if (added) names_.push_back(name);
  const std::string packed(journal_.table(frame).definition.text());
  open_definitions_.push_back({found->second, view.position, begin_, packed, {}, 0});
  frames_.emplace(frame, found->second);
  return found->second;
}

}  // namespace relay
