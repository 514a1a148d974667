// A definition with what a TABLE_MAP tells of types, enough to walk rows that were recorded from a server.
#pragma once

#include "../native/build.hpp"

namespace relay {

// The column as it stands in a definition, of its type in the map; metadata is taken from `in`.
inline build::ColumnSpec column_of(uint8_t type, Reader& in) {
  constexpr unsigned kLongLength = 0x30;  // bits that are not set in the type of a STRING carry its length beyond 255
  build::ColumnSpec column{"c", type};
  switch (type) {
    case kFloat: case kDouble: case kTime2: case kDatetime2: case kTimestamp2: case kBlob: case kJson: case kGeometry:
    case kVector: case kBlobCompressed:
      column.meta = in.u8();
      break;
    case kVarchar: case kVarcharCompressed:
      column.meta = in.u16();
      break;
    case kBit: {
      const unsigned bits = in.u8();
      column.meta = static_cast<uint16_t>(in.u8() * 8 + bits);
      break;
    }
    case kNewDecimal: {
      const unsigned precision = in.u8();
      column.meta = static_cast<uint16_t>(precision << 8 | in.u8());
      break;
    }
    case kString: case kEnum: case kSet: {
      const unsigned real = in.u8(), length = in.u8();
      column.type = static_cast<uint8_t>(real | kLongLength);
      column.meta = static_cast<uint16_t>(length | (~real & kLongLength) << 4);
      break;
    }
    default:
      break;
  }
  return column;
}

// Packed; empty if the map cannot be read.
inline std::string defined_by(Bytes map) {
  Reader in(map);
  in.skip(8);
  for (int name = 0; name < 2; ++name) in.skip(in.u8() + 1u);
  const Bytes types = in.take(in.lenenc());
  Reader metadata(in.take(in.lenenc()));
  if (!in.ok() || types.size > 4096) return {};
  std::vector<build::ColumnSpec> columns;
  for (size_t i = 0; i < types.size; ++i) columns.push_back(column_of(types.data[i], metadata));
  std::string packed = build::packed(columns), error;
  return metadata.ok() && Definition::parse(Bytes(packed), &error) ? packed : std::string();
}

}  // namespace relay
