// Measures row images as the server wrote them, without decoding values.
#pragma once

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

// The byte after the image at p, or nullptr if it does not end by `end`.
const uint8_t* skip_image(const Definition& definition, const uint8_t* present, const uint8_t* p, const uint8_t* end);

struct Walk {
  uint32_t rows = 0;
  bool ok = false;  // the images end exactly at the end of the body
};

// Steps over all rows of a body, to prove before it is published that it can be decoded.
Walk walk_rows(const Definition& definition, RowKind kind, const RowsBody& body);

// Appends the body without the columns whose `keep` is false; `definition` still describes all of them. False if the
// body is malformed.
bool copy_without(const Definition& definition, RowKind kind, const RowsBody& body, const std::vector<bool>& keep,
                  std::string* out);

}  // namespace relay
