// MySQL's binary JSON as it lies in memory. A value is a tag and what the tag says follows; containers hold offsets that
// count from their own first byte, so a value can be moved as it is.
#pragma once

#include "bytes.hpp"

namespace relay {

enum JsonTag : uint8_t {
  kSmallObject = 0, kLargeObject = 1, kSmallArray = 2, kLargeArray = 3, kLiteral = 4, kInt16 = 5, kUint16 = 6,
  kInt32 = 7, kUint32 = 8, kInt64 = 9, kUint64 = 10, kJsonDouble = 11, kJsonText = 12, kOpaque = 15,
};

constexpr unsigned kJsonDepth = 100;  // the server's own limit

inline bool is_json_object(uint8_t tag) { return tag == kSmallObject || tag == kLargeObject; }
inline bool is_json_array(uint8_t tag) { return tag == kSmallArray || tag == kLargeArray; }

// Whether a container whose offsets have `width` bytes holds such a value in the place of its offset.
inline bool is_json_inlined(uint8_t tag, unsigned width) {
  return tag == kLiteral || tag == kInt16 || tag == kUint16 || (width == 4 && (tag == kInt32 || tag == kUint32));
}

// A length in groups of seven bits, least significant first.
bool take_json_length(Reader& in, size_t* length);

// A value without its tag, in bytes that may go on after it.
struct JsonValue {
  uint8_t tag = kLiteral;
  Bytes bytes;

  // Cuts the bytes to those of the value; what a container holds is not looked at. False if they are too few.
  bool trim();
};

// Number of elements, size in bytes, then per key its offset and length, per value its tag and either its offset or,
// where it is small enough, the value; numbers and offsets are `width` bytes, lengths of keys two.
struct JsonContainer {
  bool object = false;
  unsigned width = 2;
  uint64_t count = 0;
  Bytes whole;
  const uint8_t* key_entries = nullptr;
  const uint8_t* value_entries = nullptr;

  // False if the value is no container, or one whose entries do not fit into it.
  static bool parse(const JsonValue& value, JsonContainer* out);
  bool key(uint64_t i, Bytes* out) const;          // of an object
  bool value(uint64_t i, JsonValue* out) const;
};

}  // namespace relay
