// Internals that the parts of ColumnBatch share: the columns that are common to all tables.
#pragma once

#include "formats/columns.hpp"

namespace relay {

enum Leading : size_t { kSequence, kChangeType, kPosition, kLeading };
enum Trailing : size_t { kChange, kCommitVersion, kCommitTimestamp, kSeq, kFile, kPos, kGtid, kTrailing };

struct ChangeType {
  char text[32];
  size_t size;
};
constexpr size_t kLongestChange = 16;
enum ChangeNumber : size_t { kInsert, kBefore, kAfter, kDelete };
constexpr ChangeType kChangeTypes[] = {{"insert", 6}, {"update_preimage", 15}, {"update_postimage", 16}, {"delete", 6}};

constexpr size_t kSridBytes = 4;

// Whether `values` holds the offsets where rows begin and end.
inline bool has_offsets(ColumnBuffer::Shape shape) {
  return shape == ColumnBuffer::Shape::variable || shape == ColumnBuffer::Shape::list ||
         shape == ColumnBuffer::Shape::sparse;
}

}  // namespace relay
