// Measures row images as the server wrote them, without decoding values.
#pragma once

#include "base/bitmap.hpp"
#include "values/definition.hpp"

namespace relay {

enum class RowKind : uint8_t { insert = 1, update = 2, remove = 4 };

// A rows event from its column count on: the columns that the images hold, and the images.
struct RowsBody {
  uint32_t columns = 0;
  const uint8_t* before = nullptr;  // present bitmap of a row's first image: inserted, deleted, or before the update
  const uint8_t* after = nullptr;   // present bitmap of the second image; nullptr unless an update
  Bytes images;
  bool full = false;  // every image has every column

  static bool parse(Bytes body, RowKind kind, RowsBody* out);
};

// The byte after the column value at p (of a column that is present and not NULL), or nullptr if the value does not end
// by `end`.
const uint8_t* skip_value(const Column& column, const uint8_t* p, const uint8_t* end);

inline const uint8_t* skip_extent(Extent e, const uint8_t* p, const uint8_t* end) {
  size_t left = static_cast<size_t>(end - p);
  size_t head = size_t{e.fixed} + e.prefix;
  if (head > left) return nullptr;
  if (!e.prefix) return p + head;
  size_t length = length_at(p + e.fixed, e.prefix);
  return length > left - head ? nullptr : p + head + length;
}

// Measures the images of one side of an event, which all have the same columns. It must not outlive the definition and
// the bitmap.
class Images {
 public:
  Images() = default;
  Images(const Definition& definition, const uint8_t* present);

  bool empty() const { return columns_ == 0; }

  // The byte after the image at p, or nullptr if it does not end by `end`.
  const uint8_t* skip(const uint8_t* p, const uint8_t* end) const {
    size_t left = static_cast<size_t>(end - p);
    if (nulls_ > left) return nullptr;
    if (!full_ || !no_nulls(p, left)) return skip_each(p, end);
    p += nulls_;
    for (const Extent& run : *runs_) {
      p = skip_extent(run, p, end);
      if (!p) return nullptr;
    }
    return p;
  }

 private:
  bool no_nulls(const uint8_t* p, size_t left) const {
    if (columns_ <= 64 && left >= 8) return (load<uint64_t>(p) & mask_) == 0;
    return all_bits(p, columns_, false);
  }
  const uint8_t* skip_each(const uint8_t* nulls, const uint8_t* end) const;

  const std::vector<Extent>* extents_ = nullptr;
  const std::vector<Extent>* runs_ = nullptr;
  const uint8_t* present_ = nullptr;
  size_t columns_ = 0;  // present
  size_t nulls_ = 0;    // size of an image's NULL bitmap
  uint64_t mask_ = 0;
  bool full_ = false;
};

// Measures the rows of an event: one image each, or two of an update. As long-lived as its Images.
class RowSizes {
 public:
  RowSizes() = default;
  RowSizes(const Definition& definition, const RowsBody& body)
      : before_(definition, body.before), two_(body.after != nullptr) {
    if (two_) after_ = Images(definition, body.after);
  }

  // Whether rows may have no bytes at all.
  bool empty() const { return before_.empty() && after_.empty(); }

  // Finds the end of the first image of the row at p, and the end of the row. False if the row does not end by `end`.
  bool measure(const uint8_t* p, const uint8_t* end, const uint8_t** middle, const uint8_t** next) const {
    *middle = before_.skip(p, end);
    *next = *middle && two_ ? after_.skip(*middle, end) : *middle;
    return *next != nullptr;
  }

 private:
  Images before_, after_;
  bool two_ = false;
};

// The byte after one image at p, or nullptr if it does not end by `end`.
const uint8_t* skip_image(const Definition& definition, const uint8_t* present, const uint8_t* p, const uint8_t* end);

struct Walk {
  uint32_t rows = 0;
  bool ok = false;  // the images end exactly at the end of the body
};

// Steps over all rows of a body, to prove before it is published that it can be decoded.
Walk walk_rows(const Definition& definition, const RowsBody& body);

// Appends the body without the columns whose `keep` is false; `definition` still describes all of them. False if the
// body is malformed.
bool copy_without(const Definition& definition, RowKind kind, const RowsBody& body, const std::vector<bool>& keep,
                  std::string* out);

}  // namespace relay
