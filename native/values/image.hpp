// Steps through one row image, column by column.
#pragma once

#include "base/bitmap.hpp"
#include "values/definition.hpp"

namespace relay {

enum class Has : uint8_t { nothing, null, value, broken };

// The cursor. It must not outlive the bitmap and the image.
class Image {
 public:
  Image() = default;
  Image(const Definition& d, const uint8_t* present, Bytes image)
      : present_(present), nulls_(image.data), end_(image.end()) {
    size_t total = d.columns.size();
    full_ = all_bits(present, total, true);
    columns_ = full_ ? total : count_bits(present, total);
    size_t bitmap = bytes_for(columns_);
    broken_ = bitmap > image.size;
    p_ = broken_ ? end_ : image.data + bitmap;
  }

  size_t columns() const { return columns_; }
  bool broken() const { return broken_; }
  bool full() const { return full_; }
  bool holds(size_t i) const { return full_ || bit(present_, i); }

  // Reads column i, which must be the one after the last read.
  Has next(size_t i, Extent extent, Bytes* bytes) {
    if (!holds(i)) return Has::nothing;
    size_t at = at_++;
    if (bit(nulls_, at)) return Has::null;
    auto left = static_cast<size_t>(end_ - p_);
    size_t size = extent.fixed;
    if (extent.prefix) {
      if (extent.prefix > left) return Has::broken;
      size = length_at(p_, extent.prefix);
      p_ += extent.prefix;
      left -= extent.prefix;
    }
    if (size > left) return Has::broken;
    *bytes = Bytes(p_, size);
    p_ += size;
    return Has::value;
  }

 private:
  const uint8_t* present_ = nullptr;
  const uint8_t* nulls_ = nullptr;
  const uint8_t* end_ = nullptr;
  const uint8_t* p_ = nullptr;
  size_t columns_ = 0;
  size_t at_ = 0;
  bool full_ = false;
  bool broken_ = false;
};

}  // namespace relay
