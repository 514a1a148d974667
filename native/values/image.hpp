// Steps through one row image, column by column.
#pragma once

#include "base/bitmap.hpp"
#include "values/definition.hpp"

namespace relay {

enum class Has : uint8_t { nothing, null, value, broken };

// A place in an image, behind which there are values.
struct Place {
  const uint8_t* at = nullptr;
  const uint8_t* end = nullptr;

  // Reads the next value, which is not NULL. False if the image ends before the value does.
  [[gnu::always_inline]] bool take(Extent extent, Bytes* bytes) {
    auto left = static_cast<size_t>(end - at);
    size_t size = extent.fixed;
    if (extent.prefix) {
      if (extent.prefix > left) return false;
      size = length_at(at, extent.prefix);
      at += extent.prefix;
      left -= extent.prefix;
    }
    if (size > left) return false;
    *bytes = Bytes(at, size);
    at += size;
    return true;
  }
};

// The cursor. It must not outlive the bitmap and the image.
class Image {
 public:
  Image() = default;
  Image(const Definition& d, const uint8_t* present, Bytes image) : present_(present), nulls_(image.data) {
    size_t total = d.columns.size();
    full_ = all_bits(present, total, true);
    columns_ = full_ ? total : count_bits(present, total);
    size_t bitmap = bytes_for(columns_);
    broken_ = bitmap > image.size;
    place_ = {broken_ ? image.end() : image.data + bitmap, image.end()};
  }

  size_t columns() const { return columns_; }
  bool broken() const { return broken_; }
  bool full() const { return full_; }
  bool whole() const { return full_ && !broken_ && all_bits(nulls_, columns_, false); }  // every column, and no NULL
  Place place() const { return place_; }
  const uint8_t* nulls() const { return nulls_; }
  bool holds(size_t i) const { return full_ || bit(present_, i); }

  // Reads column i, which must be the one after the last read.
  Has next(size_t i, Extent extent, Bytes* bytes) {
    if (!holds(i)) return Has::nothing;
    size_t at = at_++;
    if (bit(nulls_, at)) return Has::null;
    return place_.take(extent, bytes) ? Has::value : Has::broken;
  }

 private:
  const uint8_t* present_ = nullptr;
  const uint8_t* nulls_ = nullptr;
  Place place_;
  size_t columns_ = 0;
  size_t at_ = 0;
  bool full_ = false;
  bool broken_ = false;
};

}  // namespace relay
