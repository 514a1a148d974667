// Applies partial changes to a binary JSON document, as PARTIAL_UPDATE_ROWS events carry them.
#pragma once

#include "base/bytes.hpp"

namespace relay {

// Appends the document that results from the changes to `before`. Changes are a sequence of: operation (0 replace, 1
// insert, 2 remove), path preceded by its length, and, except for remove, a document preceded by its length. Lengths
// are length-encoded integers. False, with `out` unchanged, if the changes are malformed or do not fit the document.
bool patch_json(Bytes before, Bytes changes, std::string* out);

}  // namespace relay
