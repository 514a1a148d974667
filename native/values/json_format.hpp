// The layout of MySQL's binary JSON. A value is a tag and its data. Offsets in containers count from the container's
// first byte, so a value can be moved unchanged.
#pragma once

#include "base/bytes.hpp"

namespace relay {

enum JsonTag : uint8_t {
  kSmallObject = 0,
  kLargeObject = 1,
  kSmallArray = 2,
  kLargeArray = 3,
  kLiteral = 4,
  kInt16 = 5,
  kUint16 = 6,
  kInt32 = 7,
  kUint32 = 8,
  kInt64 = 9,
  kUint64 = 10,
  kJsonDouble = 11,
  kJsonText = 12,
  kOpaque = 15,
};

constexpr unsigned kJsonDepth = 100;  // the limit of the server

inline bool is_json_object(uint8_t tag) { return tag == kSmallObject || tag == kLargeObject; }
inline bool is_json_array(uint8_t tag) { return tag == kSmallArray || tag == kLargeArray; }

// Whether a container with offsets of `width` bytes stores such a value in place of its offset.
inline bool is_json_inlined(uint8_t tag, unsigned width) {
  return tag == kLiteral || tag == kInt16 || tag == kUint16 || (width == 4 && (tag == kInt32 || tag == kUint32));
}

// The same, behind the first byte.
bool take_long_json_length(Reader& in, uint8_t first, size_t* length);

// Reads a length in groups of seven bits, least significant first.
inline bool take_json_length(Reader& in, size_t* length) {
  const uint8_t first = in.u8();
  *length = first;
  return first < 0x80 ? in.ok() : take_long_json_length(in, first, length);
}

// A value without its tag, in bytes that may continue after it.
struct JsonValue {
  uint8_t tag = kLiteral;
  Bytes bytes;

  // Cuts the bytes to those of the value, without a check of a container's contents. False if there are too few.
  bool trim();
};

// A container: number of elements, size in bytes, then per key its offset and length, and per value its tag and either
// its offset or, if it is small enough, the value. Numbers and offsets have `width` bytes, key lengths two.
struct JsonContainer {
  bool object = false;
  unsigned width = 2;
  uint64_t count = 0;
  Bytes whole;
  const uint8_t* key_entries = nullptr;
  const uint8_t* value_entries = nullptr;

  // False if the value is not a container, or its entries do not fit.
  static bool parse(const JsonValue& value, JsonContainer* out);
  bool key(uint64_t i, Bytes* out) const;  // objects only
  bool value(uint64_t i, JsonValue* out) const;
};

}  // namespace relay
