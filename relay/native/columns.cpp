#include "columns.hpp"

#include <algorithm>
#include <climits>

#include "image.hpp"
#include "numbers.hpp"
#include "temporal.hpp"
#include "utf8.hpp"

namespace relay {

namespace {

using Shape = Lane::Shape;

enum Leading : size_t { kSequence, kChangeType, kPosition, kLeading };

constexpr size_t kFirstRows = 64;
constexpr size_t kOffset = sizeof(uint32_t);
constexpr unsigned kMaxPrecision = 38;  // of a decimal128
// Of a stream, beyond values and names: some 700 and 120 are the rule. A list is two columns there.
constexpr size_t kStreamBytes = 1024;
constexpr size_t kLaneBytes = 160;

struct Change {
  char text[32];
  size_t size;
};
constexpr size_t kLongestChange = 16;
const Change kInsert = {"insert", 6}, kBefore = {"update_preimage", 15}, kAfter = {"update_postimage", 16},
             kDelete = {"delete", 6};

const Change& change_of(RowKind kind, bool after) {
  if (kind == RowKind::update) return after ? kAfter : kBefore;
  return kind == RowKind::insert ? kInsert : kDelete;
}

bool is_moment(Value value) {
  switch (value) {
    case Value::date: case Value::old_datetime: case Value::old_timestamp: case Value::datetime: case Value::timestamp:
      return true;
    default:
      return false;
  }
}

struct Type {
  const char* format;
  uint32_t width;  // 0: not fixed
};

Type type_of(const Step& step, const Column& column) {
  switch (step.value) {
    case Value::int8: return {"c", 1};
    case Value::int16: case Value::uint8: case Value::year: return {"s", 2};
    case Value::int24: case Value::uint24: case Value::int32: case Value::uint16: return {"i", 4};
    case Value::int64: case Value::uint32: case Value::time: case Value::old_time: return {"l", 8};
    case Value::uint64: return {"d:20,0", 16};
    case Value::float32: return {"f", 4};
    case Value::float64: return {"g", 8};
    case Value::decimal: return step.precision <= kMaxPrecision ? Type{"d", 16} : Type{"u", 0};
    case Value::date: return {"tdD", 4};
    case Value::datetime: case Value::old_datetime: return {"tsu:", 8};
    case Value::timestamp: case Value::old_timestamp: return {"tsu:UTC", 8};
    case Value::enumeration:
      return column.labels.empty() ? Type{"i", 4} : Type{has_byte_labels(column) ? "z" : "u", 0};
    case Value::set: return column.labels.empty() ? Type{"d:20,0", 16} : Type{"+l", 0};
    case Value::raw: case Value::padded: return {"z", 0};
    case Value::compressed: return {is_binary(column) ? "z" : "u", 0};
    default: return {"u", 0};
  }
}

std::string format_of(const Step& step, const Type& type) {
  std::string format = type.format;
  if (format == "d") format += ":" + std::to_string(step.precision) + "," + std::to_string(step.digits);
  return format;
}

uint32_t offset_at(Output& offsets, size_t i) { return load<uint32_t>(offsets.at(i * kOffset)); }

void set_offset(Output& offsets, size_t i, size_t offset) {
  store(offsets.at(i * kOffset), static_cast<uint32_t>(offset));
}

size_t count_items(const Lane& lane) { return lane.items.size() / kOffset - 1; }

bool undecodable(const Definition& d, size_t column, std::string* error) {
  *error = "column " + d.columns[column].name + " of " + d.schema + "." + d.table;
  *error += " holds bytes that are no value of its type";
  return false;
}

const RenderOptions kPlain;

}  // namespace

ColumnBatch::ColumnBatch(std::shared_ptr<const Definition> definition)
    : definition_(std::move(definition)), fixed_bytes_(kStreamBytes) {
  const Definition& d = *definition_;
  const std::vector<Step>& steps = d.layout->steps;
  size_t moments = 0;
  for (const Step& step : steps) moments += is_moment(step.value);
  lanes_ = std::vector<Lane>(kLeading + steps.size() + moments);
  make_lane(kSequence, "_sequence", "L", Shape::fixed, 8);
  make_lane(kChangeType, "_change_type", "u", Shape::variable, 0);
  make_lane(kPosition, "_position", "L", Shape::fixed, 8);
  for (size_t i = 0; i < kLeading; ++i) lanes_[i].nullable = false;
  size_t text = kLeading + steps.size();
  for (size_t i = 0; i < steps.size(); ++i) {
    const Column& column = d.columns[i];
    Type type = type_of(steps[i], column);
    std::string format = format_of(steps[i], type);
    Shape shape = type.width ? Shape::fixed : format == "+l" ? Shape::list : Shape::variable;
    make_lane(kLeading + i, column.name, format, shape, type.width);
    if (shape == Shape::list && has_byte_labels(column)) lanes_[kLeading + i].item_format = "z";
    if (!is_moment(steps[i].value)) continue;
    make_lane(text, column.name + "__text", "u", Shape::sparse, 0);
    lanes_[kLeading + i].text = &lanes_[text++];
  }
  fixed_bytes_ += 2 * (d.schema.size() + d.table.size());
  reserve(kFirstRows);
}

void ColumnBatch::make_lane(size_t at, std::string name, std::string format, Shape shape, uint32_t width) {
  Lane& lane = lanes_[at];
  lane.shape = shape;
  lane.width = width ? width : kOffset;
  lane.name = std::move(name);
  lane.format = std::move(format);
  row_bits_ += lane.width * 8 + 1;
  fixed_bytes_ += kLaneBytes + lane.name.size() + (shape == Shape::list ? kLaneBytes : 0);
  lane.data.ensure(0);
  if (shape == Shape::fixed) return;
  lane.values.ensure(kOffset);
  set_offset(lane.values, 0, 0);
  if (shape != Shape::list) return;
  lane.items.ensure(kOffset);
  set_offset(lane.items, 0, 0);
  lane.items.p += kOffset;
}

// Room for so many more rows, in the lanes that have something for each.
void ColumnBatch::reserve(size_t rows) {
  for (Lane& lane : lanes_) {
    lane.values.p = lane.values.at((rows_ + (lane.shape != Shape::fixed)) * lane.width);
    lane.values.ensure(rows * lane.width);
  }
  lanes_[kChangeType].data.ensure(rows * kLongestChange);
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
  const Change& change = change_of(row.kind, after);
  put_fixed(lanes_[kSequence], sequence);
  put_fixed(lanes_[kPosition], row.position);
  Lane& change_type = lanes_[kChangeType];
  std::memcpy(change_type.data.p, change.text, kLongestChange);
  change_type.data.p += change.size;
  end_variable(change_type, rows_);
  const Step* steps = d.layout->steps.data();
  Lane* lane = &lanes_[kLeading];
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
      if (lane.shape != Shape::fixed) return put_as_text(lane, Cell{step, column, bytes});
      return put_fixed(lane, static_cast<int32_t>(load_le(p, static_cast<unsigned>(bytes.size))));
    case Value::set: {
      uint64_t bits = load_le(p, static_cast<unsigned>(bytes.size));
      return lane.shape == Shape::fixed ? put_number(lane, bits) : put_labels(lane, column, bits);
    }
    case Value::raw: case Value::text:
      lane.data.ensure(bytes.size);
      lane.data.p = copy_exact(lane.data.p, p, bytes.size);
      if (step.value == Value::text) mend_utf8(lane.data.p - bytes.size, bytes.size);
      end_variable(lane, rows_);
      return true;
    default:
      return put_as_text(lane, Cell{step, column, bytes});
  }
}

template <typename T, typename Convert>
inline bool ColumnBatch::put_moment(Lane& lane, const Step& step, const Column& column, Bytes bytes, Convert convert) {
  T moment;
  if (convert(&moment)) return put_fixed(lane, moment);
  put_null(lane);
  fill(*lane.text, rows_);
  lane.text->valid.resize(rows_ / 8 + 1);
  lane.text->valid.back() = static_cast<uint8_t>(lane.text->valid.back() | 1 << (rows_ & 7));
  lane.text->filled = rows_ + 1;
  return put_as_text(*lane.text, Cell{step, column, bytes});
}

// Text of any kind, bounded or not; and padded binary strings, which come the same way.
bool ColumnBatch::put_as_text(Lane& lane, const Cell& cell) {
  Output& data = lane.data;
  data.ensure(cell.step.room + cell.bytes.size);
  size_t start = data.size();
  uint8_t* end = put_text(Target{data, 0}, data.p, cell, kPlain);
  if (!end) return false;
  bool unpacked = cell.step.value == Value::compressed && !is_binary(cell.column);
  if (unpacked || cell.step.value == Value::converted) {
    mend_utf8(data.at(start), data.offset(end) - start);
  }
  data.p = end;
  end_variable(lane, rows_);
  return true;
}

bool ColumnBatch::put_labels(Lane& lane, const Column& column, uint64_t bits) {
  const std::vector<std::string>& labels = column.labels;
  if (labels.size() < 64 && bits >> labels.size()) return false;
  for (size_t i = 0; i < labels.size() && i < 64; ++i) {
    if (!(bits >> i & 1)) continue;
    lane.data.ensure(labels[i].size());
    lane.data.p = copy_exact(lane.data.p, reinterpret_cast<const uint8_t*>(labels[i].data()), labels[i].size());
    lane.items.ensure(kOffset);
    store(lane.items.p, static_cast<uint32_t>(lane.data.size()));
    lane.items.p += kOffset;
    variable_ += labels[i].size() + kOffset;
  }
  set_offset(lane.values, rows_ + 1, count_items(lane));
  return true;
}

bool ColumnBatch::put_number(Lane& lane, __int128 number) { return put_fixed(lane, number); }

void ColumnBatch::put_null(Lane& lane) {
  if (lane.valid.size() <= rows_ / 8) lane.valid.resize(rows_ / 8 + 1, 0xff);
  lane.valid[rows_ / 8] = static_cast<uint8_t>(lane.valid[rows_ / 8] & ~(1 << (rows_ & 7)));
  if (lane.shape == Shape::fixed) {
    std::memset(lane.values.at(rows_ * lane.width), 0, lane.width);
  } else {
    set_offset(lane.values, rows_ + 1, offset_at(lane.values, rows_));
  }
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
    if (lane.shape == Shape::fixed) continue;
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
