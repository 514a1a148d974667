// What the parts of ColumnBatch share: the columns that every table has.
#pragma once

#include "columns.hpp"

namespace relay {

enum Leading : size_t { kSequence, kChangeType, kPosition, kLeading };
enum Trailing : size_t { kChange, kCommitVersion, kCommitTimestamp, kSeq, kFile, kPos, kGtid, kTrailing };

struct ChangeType {
  char text[32];
  size_t size;
};
constexpr size_t kLongestChange = 16;
enum ChangeNumber : size_t { kInsert, kBefore, kAfter, kDelete };
constexpr ChangeType kChangeTypes[] = {
    {"insert", 6}, {"update_preimage", 15}, {"update_postimage", 16}, {"delete", 6}};

constexpr size_t kSridBytes = 4;

// Whether `values` has where each row begins and ends.
inline bool has_offsets(Lane::Shape shape) {
  return shape == Lane::Shape::variable || shape == Lane::Shape::list || shape == Lane::Shape::sparse;
}

}  // namespace relay
