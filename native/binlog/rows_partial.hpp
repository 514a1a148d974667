// Converts updates for which the binlog has only the changes within JSON columns (MySQL's binlog_row_value_options =
// PARTIAL_JSON) to plain updates, so that no other code has to know of them.
#pragma once

#include "values/rows.hpp"

namespace relay {

enum class Completed : uint8_t {
  yes,
  malformed,
  lacking,  // a value cannot be computed: the image before the update lacks the changed value
};

// Appends the body of a plain update with complete values, equivalent to the `body` of a PARTIAL_UPDATE_ROWS event.
// Columns whose `keep` is false (empty: none) are only skipped: their values after the update must not be read. `out`
// is valid only if the result is `yes`.
Completed complete_rows(const Definition& definition, Bytes body, const std::vector<bool>& keep, std::string* out);

}  // namespace relay
