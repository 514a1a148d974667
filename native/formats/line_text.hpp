// Encodes text for lines: escaped, as base64, or as hexadecimal digits.
#pragma once

#include <string>

#include "base/output.hpp"

namespace relay {

// Escapes the text from `start` (an offset of `out`) to `end`, and returns the byte after it, with room for `room` more
// bytes. CSV escapes the quotation mark, the backslash, line feed, carriage return and zero with a backslash. JSON: as in
// its standard, with a question mark for each byte that is not part of a character.
uint8_t* escape_csv(Output& out, size_t start, uint8_t* end, size_t room);
uint8_t* escape_json(Output& out, size_t start, uint8_t* end, size_t room);
// The same as base64 with padding.
uint8_t* encode_base64(Output& out, size_t start, uint8_t* end, size_t room);

// The same as lower-case hexadecimal digits.
uint8_t* encode_hex(Output& out, size_t start, uint8_t* end, size_t room);

// Returns the text in quotes.
std::string quoted_csv(const std::string& text);
std::string quoted_json(const std::string& text);

}  // namespace relay
