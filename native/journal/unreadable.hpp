// Handles journal pages that the kernel cannot load, because the file was truncated or the disk fails. A process that
// touches one dies by SIGBUS; processes that open the segment later get an error instead.
#pragma once

#include <cstdint>
#include <optional>

namespace relay {

// From now on this process and its children record such a page when they die of it.
void watch_pages();

// The offset of the unreadable page in the segment with this base.
std::optional<uint64_t> unreadable_at(uint64_t base);

void forget_unreadable(uint64_t base);  // the segment is created anew
void forget_unreadable();               // everything is tried again

}  // namespace relay
