// MySQL's binary JSON as the text that the server prints.
#pragma once

#include "output.hpp"

namespace relay {

// Appends the text of a document. False, with part of the text written, if the bytes are no document.
bool put_json(Output& out, Bytes document);

}  // namespace relay
