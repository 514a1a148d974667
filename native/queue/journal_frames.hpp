// The journal as a FrameSource of the broker.
#pragma once

#include "journal/journal.hpp"
#include "queue/broker.hpp"

namespace relay {

class JournalFrames final : public FrameSource {
 public:
  explicit JournalFrames(std::string directory) : journal_(std::move(directory)) {}

  Frame frame(uint64_t position) override {
    const FrameView view = journal_.verified(position);  // a damaged frame is neither matched nor counted
    Frame out;
    out.next = view.next;
    if (view.kind() != FrameKind::rows) return out;
    const auto rows = parsed<RowsFrame>(view);
    out.rows = rows.rows;
    out.kind = static_cast<uint32_t>(rows.kind);
    out.table = rows.table;
    return out;
  }

  Names names(uint64_t table) override {
    const std::shared_ptr<const Definition> definition = journal_.definition(table);
    return {definition->schema, definition->table, definition->proven};
  }

  bool has_runs() const override { return true; }

  uint64_t generation() { return journal_.generation(); }
  void release_before(uint64_t position) { journal_.release_before(position); }

 private:
  JournalReader journal_;
};

}  // namespace relay
