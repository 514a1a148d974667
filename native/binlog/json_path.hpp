// JSON paths as the server writes them to the binlog: $.name."other name"[3][last-1], without wildcards.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.hpp"

namespace relay {

struct JsonLeg {
  bool member = false;
  std::string key;        // of an object member
  bool from_end = false;  // of an array element: `index` counts from the last one
  uint64_t index = 0;

  // The index of the element in an array of `count`, or `count` if there is none. An index from the end that is before
  // the first element means the first.
  uint64_t place(uint64_t count) const;
  bool within(uint64_t count) const { return index < count; }
};

// False if the text is not such a path.
bool parse_json_path(std::string_view text, std::vector<JsonLeg>* out);

}  // namespace relay
