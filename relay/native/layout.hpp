// What is the same in every row of a table: the parts of replies that hold names, and how each column's value is written.
#pragma once

#include "definition.hpp"

namespace relay {

// A span of Layout::text.
struct Span {
  uint32_t at = 0;
  uint32_t size = 0;
};

struct Layout {
  std::string text;
};

std::shared_ptr<const Layout> make_layout(const Definition& definition);

}  // namespace relay
