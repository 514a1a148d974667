// Text as it stands in lines: escaped, as base64, or as hexadecimal digits.
#pragma once

#include <string>

#include "output.hpp"

namespace relay {

// Escapes what is written from `start` (an offset of `out`) to `end`, and returns the byte after it; for `room` bytes
// more there is room behind. CSV: \" \\ \n \r \0. JSON: as its standard has it, and a question mark for each byte that
// is no part of a character.
uint8_t* escape_csv(Output& out, size_t start, uint8_t* end, size_t room);
uint8_t* escape_json(Output& out, size_t start, uint8_t* end, size_t room);
// The same as base64, with padding.
uint8_t* encode_base64(Output& out, size_t start, uint8_t* end, size_t room);

// The same as hexadecimal digits, lower case.
uint8_t* encode_hex(Output& out, size_t start, uint8_t* end, size_t room);

// A text in quotes.
std::string quoted_csv(const std::string& text);
std::string quoted_json(const std::string& text);

}  // namespace relay
