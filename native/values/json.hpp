// Prints MySQL's binary JSON as the server does.
#pragma once

#include "base/output.hpp"

namespace relay {

// Appends the text of a document. False, with part of the text written, if the bytes are not a document.
bool put_json(Output& out, Bytes document);

}  // namespace relay
