// The memory of a column in Arrow's layout.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "output.hpp"

namespace relay {

// Texts that rows refer to by their number. They are unique: writers of Parquet rely on it.
struct Dictionary {
  std::unordered_map<std::string, int32_t> known;
  std::vector<int32_t> of_number;  // of an ENUM's numbers, 0 of the error value
};

// One column. Its memory grows by doubling.
struct Lane {
  enum class Shape : uint8_t {
    fixed,     // `values` has `width` bytes a row
    bits,      // `values` has a bit a row
    coded,     // `values` has `width` bytes a row, the number of a text of which `items` and `data` have a list
    variable,  // `values` has where in `data` each row begins, and where the last one ends
    list,      // `values` has where in `items` each row begins, and where the last one ends; `items` has so in `data`
    sparse,    // as variable, but mostly NULL: written as far as row `filled`
  };

  Shape shape = Shape::fixed;
  uint32_t width = 0;
  Lane* side = nullptr;  // where what the type cannot hold stands
  std::unique_ptr<Dictionary> dictionary;
  Output values;
  Output data;
  Output items;
  size_t filled = 0;
  std::vector<uint8_t> valid;  // a bit for each row; none as long as nothing is NULL
  bool nullable = true;
  std::string name;
  std::string format;  // of the C data interface
  const char* item_format = "u";
};

constexpr size_t kOffset = sizeof(uint32_t);

inline uint32_t offset_at(Output& offsets, size_t i) { return load<uint32_t>(offsets.at(i * kOffset)); }

inline void set_offset(Output& offsets, size_t i, size_t offset) {
  store(offsets.at(i * kOffset), static_cast<uint32_t>(offset));
}

// Of a list, or the texts of a dictionary.
inline size_t count_items(const Lane& lane) { return lane.items.size() / kOffset - 1; }

inline void add_item(Lane& lane, std::string_view text) {
  lane.data.ensure(text.size());
  lane.data.p = copy_exact(lane.data.p, reinterpret_cast<const uint8_t*>(text.data()), text.size());
  lane.items.ensure(kOffset);
  store(lane.items.p, static_cast<uint32_t>(lane.data.size()));
  lane.items.p += kOffset;
}

// Whether one of the first rows is not NULL.
inline bool has_values(const Lane& lane, size_t rows) {
  if (lane.valid.empty()) return rows > 0 && lane.shape != Lane::Shape::sparse;
  for (size_t i = 0; i < rows; ++i) {
    if (i / 8 < lane.valid.size() ? lane.valid[i / 8] >> (i & 7) & 1 : lane.shape != Lane::Shape::sparse) return true;
  }
  return false;
}

}  // namespace relay
