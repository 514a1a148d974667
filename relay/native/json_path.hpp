// Paths into JSON documents as the server writes them into the binlog: $.name."other name"[3][last-1], no wildcards.
#pragma once

#include <string>
#include <vector>

#include "bytes.hpp"

namespace relay {

struct JsonLeg {
  bool member = false;
  std::string key;        // of a member
  bool from_end = false;  // of an element: `index` counts from the last one
  uint64_t index = 0;

  // The element of so many that is meant, or their number if there is none; from the end, the first if it is before it.
  uint64_t place(uint64_t count) const;
  bool within(uint64_t count) const { return index < count; }
};

// False if the text is no such path.
bool parse_json_path(std::string_view text, std::vector<JsonLeg>* out);

}  // namespace relay
