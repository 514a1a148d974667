// Row images as the server wrote them: their extent, without their values.
#pragma once

#include "definition.hpp"

namespace relay {

enum class RowKind : uint8_t { insert = 1, update = 2, remove = 4 };

// A rows event from its column count on: which columns the images hold, and the images.
struct RowsBody {
  uint32_t columns = 0;
  const uint8_t* before = nullptr;  // present bitmap of a row's first image: inserted, deleted, or before the update
  const uint8_t* after = nullptr;   // present bitmap of the second image; nullptr unless an update
  Bytes images;
  bool full = false;  // every column is present in every image

  static bool parse(Bytes body, RowKind kind, RowsBody* out);
};

// The byte after the column value at p (of a column that is present and not NULL), or nullptr if it does not end by
// `end`.
const uint8_t* skip_value(const Column& column, const uint8_t* p, const uint8_t* end);

// The byte after the image at p, or nullptr if it does not end by `end`.
const uint8_t* skip_image(const Definition& definition, const uint8_t* present, const uint8_t* p, const uint8_t* end);

struct Walk {
  uint32_t rows = 0;
  bool ok = false;  // the images end exactly where the body ends
};

// Steps over all rows of a body: the proof that it can be decoded before it is published.
Walk walk_rows(const Definition& definition, RowKind kind, const RowsBody& body);

// Appends the body without the columns whose `keep` is false; `definition` still describes all of them. False if
// malformed.
bool copy_without(const Definition& definition, RowKind kind, const RowsBody& body, const std::vector<bool>& keep,
                  std::string* out);

}  // namespace relay
