// Changes of parts of a binary JSON document, as PARTIAL_UPDATE_ROWS events carry them.
#pragma once

#include "bytes.hpp"

namespace relay {

// Appends the document that the changes make of `before`. Changes are a sequence of: operation (0 replace, 1 insert, 2
// remove), path with its length before it, and, unless it removes, a document with its length before it; lengths are
// length-encoded integers. False, with `out` as it was, if they cannot be read or do not fit the document.
bool patch_json(Bytes before, Bytes changes, std::string* out);

}  // namespace relay
