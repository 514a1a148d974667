// Updates of which the binlog has only what changed within JSON columns (MySQL's binlog_row_value_options =
// PARTIAL_JSON), made plain: nobody else has to know of them.
#pragma once

#include "rows.hpp"

namespace relay {

enum class Completed : uint8_t {
  yes,
  malformed,
  lacking,  // a value cannot be told: the image before the update does not hold what was changed
};

// Appends the body of a plain update, with whole values after it, that says the same as the `body` of a
// PARTIAL_UPDATE_ROWS event. Columns whose `keep` is false (empty: none) are only stepped over: what they hold after it
// is not to be read. `out` is of use only if the answer is yes.
Completed complete_rows(const Definition& definition, Bytes body, const std::vector<bool>& keep, std::string* out);

}  // namespace relay
