// Runs: consecutive ROWS frames of one table that stand for one range of rows.
#pragma once

#include <cstdint>

namespace relay {

// A run begins and ends in one block of the journal. It is named by its first frame; the others are those of the same
// table behind it. Checkpoints name runs, too, so a block has the same size in every version.
constexpr uint64_t kBlock = 16384;

constexpr bool in_one_block(uint64_t frame, uint64_t other) { return frame / kBlock == other / kBlock; }

}  // namespace relay
