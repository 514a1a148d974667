// Adding rows to column batches.
#include "formats/columns.hpp"

#include <algorithm>
#include <climits>

#include "base/numbers.hpp"
#include "base/utf8.hpp"
#include "formats/columns_form.hpp"
#include "values/charset.hpp"
#include "values/compressed.hpp"
#include "values/image.hpp"
#include "values/temporal.hpp"

namespace relay {

namespace {

using Shape = ColumnBuffer::Shape;

size_t change_of(RowKind kind, bool after) {
  if (kind == RowKind::update) return after ? kAfter : kBefore;
  return kind == RowKind::insert ? kInsert : kDelete;
}

const RenderOptions kPlain;

}  // namespace

// Makes room for `rows` more rows: also in memory whose size depends on the values, if that is more than growth needs.
void ColumnBatch::reserve(size_t rows) {
  const bool ahead = rows_ > 0 && rows > rows_ + 2;
  for (ColumnBuffer& buffer : column_buffers_) {
    bool bits = buffer.shape == Shape::bits, begins = has_offsets(buffer.shape);
    buffer.values.p = buffer.values.at(bits ? bytes_for(rows_) : (rows_ + begins) * buffer.width);
    const size_t more = bits ? bytes_for(rows) + 1 : rows * buffer.width;
    if (!ahead) {
      buffer.values.ensure(more);
      continue;
    }
    buffer.values.reserve(more);
    if (!begins) continue;
    // Rows get longer, for example because their keys do.
    for (Output* part : {&buffer.data, &buffer.items}) part->reserve(part->size() * rows / rows_ * 5 / 4);
  }
  if (form_ == Form::stream) column_buffers_[kChangeType].data.ensure(rows * kLongestChange);
  capacity_ = rows_ + rows;
}

// For how many more rows a full batch makes room: as many as it has, or all that are expected.
size_t ColumnBatch::rows_ahead() const {
  constexpr size_t kKnown = 64;  // rows that say how large the others are
  const size_t again = rows_ + 2;
  if (rows_ < kKnown || expected_ <= again) return again;
  return std::max(again, std::min(expected_, most_bytes_ / (stream_bytes() / rows_ + 1)));
}

void ColumnBatch::take_memory(ColumnBatch* spare) {
  for (size_t i = 0; i < column_buffers_.size(); ++i) {
    ColumnBuffer &own = column_buffers_[i], &other = spare->column_buffers_[i];
    for (Output ColumnBuffer::* part : {&ColumnBuffer::values, &ColumnBuffer::data, &ColumnBuffer::items}) {
      Output &empty = own.*part, &used = other.*part;
      used.clear();
      if (used.room() <= empty.room()) continue;
      used.append(empty.bytes());
      empty.swap(used);
    }
  }
}

size_t ColumnBatch::room() const {
  size_t bytes = 0;
  for (const ColumnBuffer& buffer : column_buffers_)
    bytes += buffer.values.room() + buffer.data.room() + buffer.items.room();
  return bytes;
}

ColumnBatch::Added ColumnBatch::add(const Row& row, uint64_t sequence, std::string* error) {
  size_t before = rows_;
  bool two = row.kind == RowKind::update;
  if (rows_ + 2 > capacity_) reserve(rows_ahead());
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
  if (image.broken()) return cut_short(d, error);
  if (form_ == Form::stream) {
    put_leading(row, after, sequence);
  } else {
    put_trailing(row, after, sequence);
  }
  const Step* steps = d.layout->steps.data();
  ColumnBuffer* buffer = &column_buffers_[own_];
  size_t columns = d.columns.size();
  for (size_t i = 0; i < columns; ++i, ++buffer) {
    Bytes bytes;
    Has has = image.next(i, steps[i].extent, &bytes);
    if (has == Has::value) {
      if (!put_value(*buffer, steps[i], d.columns[i], bytes)) return undecodable(d, i, error);
    } else if (has == Has::broken) {
      return undecodable(d, i, error);
    } else {
      put_null(*buffer);
    }
  }
  ++rows_;
  return true;
}

void ColumnBatch::put_leading(const Row& row, bool after, uint64_t sequence) {
  const ChangeType& change = kChangeTypes[change_of(row.kind, after)];
  put_fixed(column_buffers_[kSequence], sequence);
  put_fixed(column_buffers_[kPosition], row.position);
  ColumnBuffer& change_type = column_buffers_[kChangeType];
  std::memcpy(change_type.data.p, change.text, kLongestChange);
  change_type.data.p += change.size;
  end_variable(change_type, rows_);
}

void ColumnBatch::put_trailing(const Row& row, bool after, uint64_t sequence) {
  ColumnBuffer* buffers = &column_buffers_[meta_];
  put_fixed(buffers[kChange], static_cast<int8_t>(change_of(row.kind, after)));
  put_fixed(buffers[kCommitVersion], origin_.version);
  put_fixed(buffers[kCommitTimestamp], origin_.timestamp * 1000000);
  put_fixed(buffers[kSeq], sequence);
  put_fixed(buffers[kFile], file_);
  put_fixed(buffers[kPos], row.position);
  if (gtid_ < 0) {
    put_null(buffers[kGtid]);
  } else {
    put_fixed(buffers[kGtid], gtid_);
  }
}

inline bool ColumnBatch::put_value(ColumnBuffer& buffer, const Step& step, const Column& column, Bytes bytes) {
  const uint8_t* p = bytes.data;
  unsigned digits = step.digits;
  switch (step.value) {
    case Value::int8: return put_fixed(buffer, load<int8_t>(p));
    case Value::uint8: return put_fixed(buffer, int16_t{*p});
    case Value::int16: return put_fixed(buffer, load<int16_t>(p));
    case Value::uint16: return put_fixed(buffer, int32_t{load<uint16_t>(p)});
    case Value::int24: return put_fixed(buffer, static_cast<int32_t>(static_cast<uint32_t>(load_le(p, 3)) << 8) >> 8);
    case Value::uint24: return put_fixed(buffer, static_cast<int32_t>(load_le(p, 3)));
    case Value::int32: return put_fixed(buffer, load<int32_t>(p));
    case Value::uint32: return put_fixed(buffer, int64_t{load<uint32_t>(p)});
    case Value::int64: return put_fixed(buffer, load<int64_t>(p));
    case Value::uint64: return put_number(buffer, load<uint64_t>(p));
    case Value::float32: return put_fixed(buffer, load<float>(p));
    case Value::float64: return put_fixed(buffer, load<double>(p));
    case Value::year: return put_fixed(buffer, static_cast<int16_t>(*p ? 1900 + *p : 0));
    case Value::old_time: {
      int64_t micros;
      return old_time_to_micros(p, digits, &micros) && put_fixed(buffer, micros);
    }
    case Value::time: return put_fixed(buffer, time_to_micros(p, digits));
    case Value::date:
      return put_moment<int32_t>(buffer, step, column, bytes, [p](int32_t* out) { return date_to_days(p, out); });
    case Value::old_datetime:
      return put_moment<int64_t>(buffer, step, column, bytes,
                                 [=](int64_t* out) { return old_datetime_to_micros(p, digits, out); });
    case Value::datetime:
      return put_moment<int64_t>(buffer, step, column, bytes,
                                 [=](int64_t* out) { return datetime_to_micros(p, digits, out); });
    case Value::old_timestamp:
      return put_moment<int64_t>(buffer, step, column, bytes,
                                 [=](int64_t* out) { return old_timestamp_to_micros(p, digits, out); });
    case Value::timestamp:
      return put_moment<int64_t>(buffer, step, column, bytes,
                                 [=](int64_t* out) { return timestamp_to_micros(p, digits, out); });
    case Value::decimal: {
      if (buffer.shape != Shape::fixed) return put_as_text(buffer, Cell{step, column, bytes});
      __int128 number;
      return decimal_to_int128(p, step.precision, digits, &number) && put_number(buffer, number);
    }
    case Value::enumeration:
      if (buffer.shape == Shape::variable) return put_as_text(buffer, Cell{step, column, bytes});
      if (buffer.shape == Shape::coded) return put_label(buffer, load_le(p, static_cast<unsigned>(bytes.size)));
      return put_fixed(buffer, static_cast<int32_t>(load_le(p, static_cast<unsigned>(bytes.size))));
    case Value::set: {
      uint64_t bits = load_le(p, static_cast<unsigned>(bytes.size));
      return buffer.shape == Shape::fixed ? put_number(buffer, bits) : put_labels(buffer, column, bits);
    }
    case Value::raw:
      if (buffer.shape == Shape::bits) return put_bit(buffer, *p & 1);
      return buffer.side ? put_geometry(buffer, bytes) : put_bytes(buffer, bytes);
    case Value::text:
      put_bytes(buffer, bytes);
      if (!mend_utf8(buffer.data.p - bytes.size, bytes.size) || !buffer.side) return true;
      return put_raw(*buffer.side, Cell{step, column, bytes}, true);
    case Value::json:
      if (form_ == Form::lake_binary_json) return put_bytes(buffer, bytes);
      return put_as_text(buffer, Cell{step, column, bytes});
    default: return put_as_text(buffer, Cell{step, column, bytes});
  }
}

template <typename T, typename Convert>
inline bool ColumnBatch::put_moment(ColumnBuffer& buffer, const Step& step, const Column& column, Bytes bytes,
                                    Convert convert) {
  T moment;
  if (convert(&moment)) return put_fixed(buffer, moment);
  put_null(buffer);
  begin_sparse(*buffer.side);
  return put_as_text(*buffer.side, Cell{step, column, bytes});
}

// Starts a value of this row, after NULLs since the last value.
void ColumnBatch::begin_sparse(ColumnBuffer& buffer) {
  fill(buffer, rows_);
  buffer.valid.resize(rows_ / 8 + 1);
  buffer.valid.back() = static_cast<uint8_t>(buffer.valid.back() | 1 << (rows_ & 7));
  buffer.filled = rows_ + 1;
}

inline bool ColumnBatch::put_bytes(ColumnBuffer& buffer, Bytes bytes) {
  buffer.data.ensure(bytes.size);
  buffer.data.p = copy_exact(buffer.data.p, bytes.data, bytes.size);
  end_variable(buffer, rows_);
  return true;
}

// Adds text of any kind, bounded or not, and padded binary strings, which work the same way.
bool ColumnBatch::put_as_text(ColumnBuffer& buffer, const Cell& cell) {
  Output& data = buffer.data;
  data.ensure(cell.step.room + cell.bytes.size);
  size_t start = data.size();
  uint8_t* end = put_text(Target{data, 0}, data.p, cell, kPlain);
  if (!end) return false;
  data.p = end;
  end_variable(buffer, rows_);
  bool unpacked = cell.step.value == Value::compressed && !is_binary(cell.column);
  if (!unpacked && cell.step.value != Value::converted) return true;
  uint8_t* text = data.at(start);
  size_t size = data.size() - start;
  bool mended = mend_utf8(text, size);
  if (!buffer.side) return true;
  // Characters that the character set does not define became question marks. Such texts are rare, except those that had
  // question marks before.
  bool doubtful = mended || (cell.column.conversion && std::memchr(text, '?', size));
  return !doubtful || put_raw(*buffer.side, cell, mended);
}

// Adds the original bytes of a text with question marks: always if `surely`, otherwise only if the conversion made one
// of them.
bool ColumnBatch::put_raw(ColumnBuffer& buffer, const Cell& cell, bool surely) {
  Output& data = buffer.data;
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
  begin_sparse(buffer);
  data.p += bytes.size;
  end_variable(buffer, rows_);
  return true;
}

// A geometry is four bytes of SRID and the WKB. Non-strict servers make empty values, which have neither.
bool ColumnBatch::put_geometry(ColumnBuffer& buffer, Bytes bytes) {
  if (bytes.size < kSridBytes) {
    put_null(*buffer.side);
    return put_bytes(buffer, bytes);
  }
  put_fixed(*buffer.side, load<int32_t>(bytes.data));
  return put_bytes(buffer, bytes.from(kSridBytes));
}

bool ColumnBatch::put_bit(ColumnBuffer& buffer, bool value) {
  uint8_t* p = buffer.values.at(rows_ / 8);
  unsigned at = rows_ & 7;
  *p = static_cast<uint8_t>((*p & ((1 << at) - 1)) | value << at);
  return true;
}

bool ColumnBatch::put_label(ColumnBuffer& buffer, uint64_t number) {
  if (!number && buffer.side) {
    put_null(buffer);
    begin_sparse(*buffer.side);
    end_variable(*buffer.side, rows_);
    return true;
  }
  const std::vector<int32_t>& codes = buffer.dictionary->of_number;
  return number < codes.size() && put_fixed(buffer, codes[number]);
}

bool ColumnBatch::put_labels(ColumnBuffer& buffer, const Column& column, uint64_t bits) {
  const std::vector<std::string>& labels = column.labels;
  if (labels.size() < 64 && bits >> labels.size()) return false;
  for (size_t i = 0; i < labels.size() && i < 64; ++i) {
    if (!(bits >> i & 1)) continue;
    add_item(buffer, labels[i]);
    variable_ += labels[i].size() + kOffset;
  }
  set_offset(buffer.values, rows_ + 1, count_items(buffer));
  return true;
}

bool ColumnBatch::put_number(ColumnBuffer& buffer, __int128 number) { return put_fixed(buffer, number); }

void ColumnBatch::put_null(ColumnBuffer& buffer) {
  if (buffer.valid.size() <= rows_ / 8) buffer.valid.resize(rows_ / 8 + 1, 0xff);
  buffer.valid[rows_ / 8] = static_cast<uint8_t>(buffer.valid[rows_ / 8] & ~(1 << (rows_ & 7)));
  if (buffer.shape == Shape::bits) {
    put_bit(buffer, false);
  } else if (!has_offsets(buffer.shape)) {
    std::memset(buffer.values.at(rows_ * buffer.width), 0, buffer.width);
  } else {
    set_offset(buffer.values, rows_ + 1, offset_at(buffer.values, rows_));
  }
  if (buffer.side && buffer.side->shape == Shape::fixed) put_null(*buffer.side);
}

inline void ColumnBatch::end_variable(ColumnBuffer& buffer, size_t row) {
  size_t end = buffer.data.size();
  variable_ += end - offset_at(buffer.values, row);
  set_offset(buffer.values, row + 1, end);
}

// Makes a sparse column NULL from its end up to a row.
void ColumnBatch::fill(ColumnBuffer& buffer, size_t rows) {
  for (; buffer.filled < rows; ++buffer.filled) set_offset(buffer.values, buffer.filled + 1, buffer.data.size());
}

void ColumnBatch::cut(size_t rows) {
  rows_ = rows;
  variable_ = 0;
  for (ColumnBuffer& buffer : column_buffers_) {
    bool sparse = buffer.shape == Shape::sparse;
    if (buffer.valid.size() > rows / 8) {
      buffer.valid.resize(rows / 8 + 1);
      auto beyond = static_cast<uint8_t>(0xff << (rows & 7));
      uint8_t& last = buffer.valid.back();
      last = static_cast<uint8_t>(sparse ? last & ~beyond : last | beyond);
    }
    if (buffer.shape == Shape::coded) variable_ += buffer.data.size() + count_items(buffer) * kOffset;
    if (!has_offsets(buffer.shape)) continue;
    buffer.filled = std::min(buffer.filled, rows);
    uint32_t end = offset_at(buffer.values, sparse ? buffer.filled : rows);
    if (buffer.shape == Shape::list) {
      buffer.items.p = buffer.items.at((end + size_t{1}) * kOffset);
      variable_ += end * kOffset;
      end = offset_at(buffer.items, end);
    }
    buffer.data.p = buffer.data.at(end);
    variable_ += end;
  }
}

void ColumnBatch::seal() {
  for (ColumnBuffer& buffer : column_buffers_) {
    bool sparse = buffer.shape == Shape::sparse;
    if (sparse) fill(buffer, rows_);
    if (sparse || !buffer.valid.empty()) buffer.valid.resize(rows_ / 8 + 1, sparse ? 0 : 0xff);
  }
}

}  // namespace relay
