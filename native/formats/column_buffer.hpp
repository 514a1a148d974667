// The memory of one column in Arrow's layout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/output.hpp"

namespace relay {

// Finds the texts of a column that its rows refer to by number. They are unique: writers of Parquet rely on that. The
// texts themselves are the column's items.
struct Dictionary {
  std::vector<size_t> hashes;      // by number of the text
  std::vector<int32_t> slots;      // numbers, each at its hash or behind; -1: none. A power of two, half of it empty
  std::vector<int32_t> of_number;  // by number of the ENUM; 0: the error value
};

// One column. Its memory doubles when it is full, unless the batch knows how many rows come.
struct ColumnBuffer {
  enum class Shape : uint8_t {
    fixed,     // `values` has `width` bytes per row
    bits,      // `values` has one bit per row
    coded,     // `values` has `width` bytes per row: the number of a text in the list that `items` and `data` hold
    variable,  // `values` has the offset in `data` where each row begins, and the end of the last
    list,      // as variable, but the offsets are into `items`, which has offsets into `data`
    sparse,    // as variable, but mostly NULL: written only up to row `filled`
  };

  Shape shape = Shape::fixed;
  uint32_t width = 0;
  ColumnBuffer* side = nullptr;  // the column for values that this type cannot hold
  std::unique_ptr<Dictionary> dictionary;
  Output values;
  Output data;
  Output items;
  size_t filled = 0;
  std::vector<uint8_t> valid;  // a bit per row; empty while nothing is NULL
  bool nullable = true;
  std::string name;
  std::string format;  // as in the Arrow C data interface
  const char* item_format = "u";
};

constexpr size_t kOffset = sizeof(uint32_t);

// Fetches what follows the place of a value. Processors do not foresee stores to so many places in turn.
inline void prefetch(const uint8_t* value) {
  constexpr size_t kAhead = 128;
  __builtin_prefetch(value + kAhead, 1);
}

inline uint32_t offset_at(Output& offsets, size_t i) { return load<uint32_t>(offsets.at(i * kOffset)); }

inline void set_offset(Output& offsets, size_t i, size_t offset) {
  store(offsets.at(i * kOffset), static_cast<uint32_t>(offset));
}

// Number of items of a list, or of texts of a dictionary.
inline size_t count_items(const ColumnBuffer& buffer) { return buffer.items.size() / kOffset - 1; }

inline void add_item(ColumnBuffer& buffer, std::string_view text) {
  buffer.data.ensure(text.size());
  buffer.items.ensure(kOffset);
  buffer.data.p = copy_exact(buffer.data.p, reinterpret_cast<const uint8_t*>(text.data()), text.size());
  store(buffer.items.p, static_cast<uint32_t>(buffer.data.size()));
  buffer.items.p += kOffset;
}

inline std::string_view item_at(ColumnBuffer& buffer, size_t i) {
  const size_t begin = offset_at(buffer.items, i), end = offset_at(buffer.items, i + 1);
  return {buffer.data.chars() + begin, end - begin};
}

// Whether one of the first `rows` rows is not NULL.
inline bool has_values(const ColumnBuffer& buffer, size_t rows) {
  if (buffer.valid.empty()) return rows > 0 && buffer.shape != ColumnBuffer::Shape::sparse;
  for (size_t i = 0; i < rows; ++i) {
    if (i / 8 < buffer.valid.size() ? buffer.valid[i / 8] >> (i & 7) & 1 : buffer.shape != ColumnBuffer::Shape::sparse)
      return true;
  }
  return false;
}

}  // namespace relay
