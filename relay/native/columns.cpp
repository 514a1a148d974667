#include "columns.hpp"

#include <algorithm>
#include <climits>

#include "charset.hpp"
#include "columns_form.hpp"
#include "compressed.hpp"
#include "image.hpp"
#include "numbers.hpp"
#include "temporal.hpp"
#include "utf8.hpp"

namespace relay {

namespace {

using Shape = Lane::Shape;

size_t change_of(RowKind kind, bool after) {
  if (kind == RowKind::update) return after ? kAfter : kBefore;
  return kind == RowKind::insert ? kInsert : kDelete;
}

bool undecodable(const Definition& d, size_t column, std::string* error) {
  *error = "column " + d.columns[column].name + " of " + d.schema + "." + d.table;
  *error += " holds bytes that are no value of its type";
  return false;
}

const RenderOptions kPlain;

}  // namespace

// Room for so many more rows, in the lanes that have something for each.
void ColumnBatch::reserve(size_t rows) {
  for (Lane& lane : lanes_) {
    bool bits = lane.shape == Shape::bits, begins = has_offsets(lane.shape);
    lane.values.p = lane.values.at(bits ? bytes_for(rows_) : (rows_ + begins) * lane.width);
    lane.values.ensure(bits ? bytes_for(rows) + 1 : rows * lane.width);
  }
  if (form_ == Form::stream) lanes_[kChangeType].data.ensure(rows * kLongestChange);
  capacity_ = rows_ + rows;
}

ColumnBatch::Added ColumnBatch::add(const Row& row, uint64_t sequence, std::string* error) {
  size_t before = rows_;
  bool two = row.kind == RowKind::update;
  if (rows_ + 2 > capacity_) reserve(rows_ + 2);
  if (!put_image(row, false, sequence, error) || (two && !put_image(row, true, sequence, error))) {
    cut(before);
    return Added::undecodable;
  }
  if (variable_ <= INT_MAX) return Added::yes;
  *error = "the next row does not fit into columns of 2 GiB";
  cut(before);
  return Added::full;
}

bool ColumnBatch::put_image(const Row& row, bool after, uint64_t sequence, std::string* error) {
  const Definition& d = *definition_;
  Image image(d, after ? row.after_present : row.before_present, after ? row.after : row.before);
  if (image.broken()) {
    *error = "a row of " + d.schema + "." + d.table + " is cut short";
    return false;
  }
  if (form_ == Form::stream) {
    put_leading(row, after, sequence);
  } else {
    put_trailing(row, after, sequence);
  }
  const Step* steps = d.layout->steps.data();
  Lane* lane = &lanes_[own_];
  size_t columns = d.columns.size();
  for (size_t i = 0; i < columns; ++i, ++lane) {
    Bytes bytes;
    Has has = image.next(i, steps[i].extent, &bytes);
    if (has == Has::value) {
      if (!put_value(*lane, steps[i], d.columns[i], bytes)) return undecodable(d, i, error);
    } else if (has == Has::broken) {
      return undecodable(d, i, error);
    } else {
      put_null(*lane);
    }
  }
  ++rows_;
  return true;
}

void ColumnBatch::put_leading(const Row& row, bool after, uint64_t sequence) {
  const ChangeType& change = kChangeTypes[change_of(row.kind, after)];
  put_fixed(lanes_[kSequence], sequence);
  put_fixed(lanes_[kPosition], row.position);
  Lane& change_type = lanes_[kChangeType];
  std::memcpy(change_type.data.p, change.text, kLongestChange);
  change_type.data.p += change.size;
  end_variable(change_type, rows_);
}

void ColumnBatch::put_trailing(const Row& row, bool after, uint64_t sequence) {
  Lane* lanes = &lanes_[meta_];
  put_fixed(lanes[kChange], static_cast<int8_t>(change_of(row.kind, after)));
  put_fixed(lanes[kCommitVersion], origin_.version);
  put_fixed(lanes[kCommitTimestamp], origin_.timestamp * 1000000);
  put_fixed(lanes[kSeq], sequence);
  put_fixed(lanes[kFile], file_);
  put_fixed(lanes[kPos], row.position);
  if (gtid_ < 0) {
    put_null(lanes[kGtid]);
  } else {
    put_fixed(lanes[kGtid], gtid_);
  }
}

inline bool ColumnBatch::put_value(Lane& lane, const Step& step, const Column& column, Bytes bytes) {
  const uint8_t* p = bytes.data;
  unsigned digits = step.digits;
  switch (step.value) {
    case Value::int8: return put_fixed(lane, load<int8_t>(p));
    case Value::uint8: return put_fixed(lane, int16_t{*p});
    case Value::int16: return put_fixed(lane, load<int16_t>(p));
    case Value::uint16: return put_fixed(lane, int32_t{load<uint16_t>(p)});
    case Value::int24: return put_fixed(lane, static_cast<int32_t>(static_cast<uint32_t>(load_le(p, 3)) << 8) >> 8);
    case Value::uint24: return put_fixed(lane, static_cast<int32_t>(load_le(p, 3)));
    case Value::int32: return put_fixed(lane, load<int32_t>(p));
    case Value::uint32: return put_fixed(lane, int64_t{load<uint32_t>(p)});
    case Value::int64: return put_fixed(lane, load<int64_t>(p));
    case Value::uint64: return put_number(lane, load<uint64_t>(p));
    case Value::float32: return put_fixed(lane, load<float>(p));
    case Value::float64: return put_fixed(lane, load<double>(p));
    case Value::year: return put_fixed(lane, static_cast<int16_t>(*p ? 1900 + *p : 0));
    case Value::old_time: {
      int64_t micros;
      return old_time_to_micros(p, digits, &micros) && put_fixed(lane, micros);
    }
    case Value::time: return put_fixed(lane, time_to_micros(p, digits));
    case Value::date:
      return put_moment<int32_t>(lane, step, column, bytes, [p](int32_t* out) { return date_to_days(p, out); });
    case Value::old_datetime:
      return put_moment<int64_t>(lane, step, column, bytes,
                                 [=](int64_t* out) { return old_datetime_to_micros(p, digits, out); });
    case Value::datetime:
      return put_moment<int64_t>(lane, step, column, bytes,
                                 [=](int64_t* out) { return datetime_to_micros(p, digits, out); });
    case Value::old_timestamp:
      return put_moment<int64_t>(lane, step, column, bytes,
                                 [=](int64_t* out) { return old_timestamp_to_micros(p, digits, out); });
    case Value::timestamp:
      return put_moment<int64_t>(lane, step, column, bytes,
                                 [=](int64_t* out) { return timestamp_to_micros(p, digits, out); });
    case Value::decimal: {
      if (lane.shape != Shape::fixed) return put_as_text(lane, Cell{step, column, bytes});
      __int128 number;
      return decimal_to_int128(p, step.precision, digits, &number) && put_number(lane, number);
    }
    case Value::enumeration:
      if (lane.shape == Shape::variable) return put_as_text(lane, Cell{step, column, bytes});
      if (lane.shape == Shape::coded) return put_label(lane, load_le(p, static_cast<unsigned>(bytes.size)));
      return put_fixed(lane, static_cast<int32_t>(load_le(p, static_cast<unsigned>(bytes.size))));
    case Value::set: {
      uint64_t bits = load_le(p, static_cast<unsigned>(bytes.size));
      return lane.shape == Shape::fixed ? put_number(lane, bits) : put_labels(lane, column, bits);
    }
    case Value::raw:
      if (lane.shape == Shape::bits) return put_bit(lane, *p & 1);
      return lane.side ? put_geometry(lane, bytes) : put_bytes(lane, bytes);
    case Value::text:
      put_bytes(lane, bytes);
      if (!mend_utf8(lane.data.p - bytes.size, bytes.size) || !lane.side) return true;
      return put_raw(*lane.side, Cell{step, column, bytes}, true);
    case Value::json:
      if (form_ == Form::lake_binary_json) return put_bytes(lane, bytes);
      return put_as_text(lane, Cell{step, column, bytes});
    default:
      return put_as_text(lane, Cell{step, column, bytes});
  }
}

template <typename T, typename Convert>
inline bool ColumnBatch::put_moment(Lane& lane, const Step& step, const Column& column, Bytes bytes, Convert convert) {
  T moment;
  if (convert(&moment)) return put_fixed(lane, moment);
  put_null(lane);
  begin_sparse(*lane.side);
  return put_as_text(*lane.side, Cell{step, column, bytes});
}

// A value of this row follows, after NULLs since the last one.
void ColumnBatch::begin_sparse(Lane& lane) {
  fill(lane, rows_);
  lane.valid.resize(rows_ / 8 + 1);
  lane.valid.back() = static_cast<uint8_t>(lane.valid.back() | 1 << (rows_ & 7));
  lane.filled = rows_ + 1;
}

inline bool ColumnBatch::put_bytes(Lane& lane, Bytes bytes) {
  lane.data.ensure(bytes.size);
  lane.data.p = copy_exact(lane.data.p, bytes.data, bytes.size);
  end_variable(lane, rows_);
  return true;
}

// Text of any kind, bounded or not; and padded binary strings, which come the same way.
bool ColumnBatch::put_as_text(Lane& lane, const Cell& cell) {
  Output& data = lane.data;
  data.ensure(cell.step.room + cell.bytes.size);
  size_t start = data.size();
  uint8_t* end = put_text(Target{data, 0}, data.p, cell, kPlain);
  if (!end) return false;
  data.p = end;
  end_variable(lane, rows_);
  bool unpacked = cell.step.value == Value::compressed && !is_binary(cell.column);
  if (!unpacked && cell.step.value != Value::converted) return true;
  uint8_t* text = data.at(start);
  size_t size = data.size() - start;
  bool mended = mend_utf8(text, size);
  if (!lane.side) return true;
  // What a character set does not define has become a question mark: such a text, if it was not one all along, is rare.
  bool doubtful = mended || (cell.column.conversion && std::memchr(text, '?', size));
  return !doubtful || put_raw(*lane.side, cell, mended);
}

// The bytes of a text that has got question marks: `surely`, or unless it had them all along.
bool ColumnBatch::put_raw(Lane& lane, const Cell& cell, bool surely) {
  Output& data = lane.data;
  Bytes bytes = cell.bytes;
  if (cell.step.value == Value::compressed) {
    CompressedValue value;
    if (!CompressedValue::parse(cell.bytes, cell.step.width, &value)) return false;
    data.ensure(value.size);
    if (!value.unpack(data.p)) return false;
    bytes = Bytes(data.p, value.size);
  } else {
    data.ensure(bytes.size);
    copy_exact(data.p, bytes.data, bytes.size);
    bytes = Bytes(data.p, bytes.size);
  }
  if (!surely && cell.column.conversion->holds(bytes)) return true;
  begin_sparse(lane);
  data.p += bytes.size;
  end_variable(lane, rows_);
  return true;
}

// Four bytes of SRID, and the WKB; servers that are not strict make empty values, which have neither.
bool ColumnBatch::put_geometry(Lane& lane, Bytes bytes) {
  if (bytes.size < kSridBytes) {
    put_null(*lane.side);
    return put_bytes(lane, bytes);
  }
  put_fixed(*lane.side, load<int32_t>(bytes.data));
  return put_bytes(lane, bytes.from(kSridBytes));
}

bool ColumnBatch::put_bit(Lane& lane, bool value) {
  uint8_t* p = lane.values.at(rows_ / 8);
  unsigned at = rows_ & 7;
  *p = static_cast<uint8_t>((*p & ((1 << at) - 1)) | value << at);
  return true;
}

bool ColumnBatch::put_label(Lane& lane, uint64_t number) {
  if (!number && lane.side) {
    put_null(lane);
    begin_sparse(*lane.side);
    end_variable(*lane.side, rows_);
    return true;
  }
  const std::vector<int32_t>& codes = lane.dictionary->of_number;
  return number < codes.size() && put_fixed(lane, codes[number]);
}

bool ColumnBatch::put_labels(Lane& lane, const Column& column, uint64_t bits) {
  const std::vector<std::string>& labels = column.labels;
  if (labels.size() < 64 && bits >> labels.size()) return false;
  for (size_t i = 0; i < labels.size() && i < 64; ++i) {
    if (!(bits >> i & 1)) continue;
    add_item(lane, labels[i]);
    variable_ += labels[i].size() + kOffset;
  }
  set_offset(lane.values, rows_ + 1, count_items(lane));
  return true;
}

bool ColumnBatch::put_number(Lane& lane, __int128 number) { return put_fixed(lane, number); }

void ColumnBatch::put_null(Lane& lane) {
  if (lane.valid.size() <= rows_ / 8) lane.valid.resize(rows_ / 8 + 1, 0xff);
  lane.valid[rows_ / 8] = static_cast<uint8_t>(lane.valid[rows_ / 8] & ~(1 << (rows_ & 7)));
  if (lane.shape == Shape::bits) {
    put_bit(lane, false);
  } else if (!has_offsets(lane.shape)) {
    std::memset(lane.values.at(rows_ * lane.width), 0, lane.width);
  } else {
    set_offset(lane.values, rows_ + 1, offset_at(lane.values, rows_));
  }
  if (lane.side && lane.side->shape == Shape::fixed) put_null(*lane.side);
}

inline void ColumnBatch::end_variable(Lane& lane, size_t row) {
  size_t end = lane.data.size();
  variable_ += end - offset_at(lane.values, row);
  set_offset(lane.values, row + 1, end);
}

// A sparse lane is NULL from where it is written up to a row.
void ColumnBatch::fill(Lane& lane, size_t rows) {
  for (; lane.filled < rows; ++lane.filled) set_offset(lane.values, lane.filled + 1, lane.data.size());
}

void ColumnBatch::cut(size_t rows) {
  rows_ = rows;
  variable_ = 0;
  for (Lane& lane : lanes_) {
    bool sparse = lane.shape == Shape::sparse;
    if (lane.valid.size() > rows / 8) {
      lane.valid.resize(rows / 8 + 1);
      auto beyond = static_cast<uint8_t>(0xff << (rows & 7));
      uint8_t& last = lane.valid.back();
      last = static_cast<uint8_t>(sparse ? last & ~beyond : last | beyond);
    }
    if (lane.shape == Shape::coded) variable_ += lane.data.size() + count_items(lane) * kOffset;
    if (!has_offsets(lane.shape)) continue;
    lane.filled = std::min(lane.filled, rows);
    uint32_t end = offset_at(lane.values, sparse ? lane.filled : rows);
    if (lane.shape == Shape::list) {
      lane.items.p = lane.items.at((end + size_t{1}) * kOffset);
      variable_ += end * kOffset;
      end = offset_at(lane.items, end);
    }
    lane.data.p = lane.data.at(end);
    variable_ += end;
  }
}

void ColumnBatch::seal() {
  for (Lane& lane : lanes_) {
    bool sparse = lane.shape == Shape::sparse;
    if (sparse) fill(lane, rows_);
    if (sparse || !lane.valid.empty()) lane.valid.resize(rows_ / 8 + 1, sparse ? 0 : 0xff);
  }
}

}  // namespace relay
