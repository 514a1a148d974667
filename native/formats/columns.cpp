// Adding rows to column batches.
#include "formats/columns.hpp"

#include <algorithm>
#include <climits>

#include "base/numbers.hpp"
#include "base/utf8.hpp"
#include "formats/columns_form.hpp"
#include "values/charset.hpp"
#include "values/compressed.hpp"
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

// Makes room for more rows: as many as there are, or all that are expected and fit.
void ColumnBatch::make_room() {
  constexpr size_t kKnown = 64;  // rows that say how large the others are
  const size_t again = rows_ + 2;
  if (rows_ < kKnown || !expected_) return reserve(again);
  const size_t bytes = stream_bytes(), left = most_bytes_ > bytes ? most_bytes_ - bytes : 0;
  const size_t fit = left / (bytes / rows_ + 1);
  reserve_ahead(std::min(std::max(again, expected_), fit + fit / 16 + kKnown));
}

// Bytes of `values` for so many rows.
size_t ColumnBatch::values_size(const ColumnBuffer& buffer, size_t rows) {
  if (buffer.shape == Shape::bits) return bytes_for(rows);
  return (rows + has_offsets(buffer.shape)) * buffer.width;
}

// Makes room for `rows` more rows, except in memory whose size depends on the values.
void ColumnBatch::reserve(size_t rows) {
  for (ColumnBuffer& buffer : column_buffers_) {
    buffer.values.p = buffer.values.at(values_size(buffer, rows_));
    buffer.values.ensure(values_size(buffer, rows_ + rows) - buffer.values.size());
  }
  if (form_ == Form::stream) column_buffers_[kChangeType].data.ensure(rows * kLongestChange);
  capacity_ = rows_ + rows;
}

// Makes room for `rows` more rows in all memory: in one block, if much is lacking.
void ColumnBatch::reserve_ahead(size_t rows) {
  constexpr size_t kLarge = 2 * Block::kHugePage;
  struct Wanted {
    Output* part;
    size_t room;
  };
  std::vector<Wanted> all;
  size_t bytes = 0, lacking = 0;
  auto want = [&](Output& part, size_t more) {
    const size_t room = part.size() + more + Output::kSlack;
    all.push_back({&part, room});
    bytes += Block::rounded(room);
    if (part.room() < room) lacking += room;
  };
  for (ColumnBuffer& buffer : column_buffers_) {
    buffer.values.p = buffer.values.at(values_size(buffer, rows_));
    want(buffer.values, values_size(buffer, rows_ + rows) - buffer.values.size());
    // Rows get longer, for example because their keys do.
    for (Output* part : {&buffer.data, &buffer.items})
      want(*part, has_offsets(buffer.shape) ? part->size() * rows / rows_ * 5 / 4 : 0);
  }
  std::shared_ptr<Block> block = lacking < kLarge ? nullptr : std::make_shared<Block>(bytes);
  for (const Wanted& each : all) {
    if (block) {
      each.part->move_to(block->take(each.room), each.room);
    } else if (each.part->room() < each.room) {
      each.part->resize(each.room);
    }
  }
  if (block) block_ = std::move(block);
  capacity_ = rows_ + rows;
}

void ColumnBatch::take_memory(ColumnBatch* spare) {
  for (size_t i = 0; i < column_buffers_.size(); ++i) {
    ColumnBuffer &own = column_buffers_[i], &other = spare->column_buffers_[i];
    for (Output ColumnBuffer::* part : {&ColumnBuffer::values, &ColumnBuffer::data, &ColumnBuffer::items}) {
      Output &empty = own.*part, &used = other.*part;
      used.truncate(0);
      if (used.room() <= empty.room()) continue;
      used.append(empty.bytes());
      empty.swap(used);
    }
  }
  block_ = spare->block_;
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
  if (rows_ + 2 > capacity_) make_room();
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
  if (!(image.whole() ? put_columns<true>(&image, error) : put_columns<false>(&image, error))) return false;
  ++rows_;
  return true;
}

// Puts the table's own columns. One instance for whole images: what they lack takes no time.
template <bool whole>
bool ColumnBatch::put_columns(Image* image, std::string* error) {
  const Definition& d = *definition_;
  const Step* const steps = d.layout->steps.data();
  const Column* const columns = d.columns.data();
  ColumnBuffer* const buffers = &column_buffers_[own_];
  const size_t total = d.columns.size();
  Place place = image->place();
  for (size_t i = 0; i < total; ++i) {
    Bytes bytes;
    Has has = Has::value;
    if (!whole) {
      has = image->next(i, steps[i].extent, &bytes);
    } else if (!place.take(steps[i].extent, &bytes)) {
      has = Has::broken;
    }
    if (has == Has::value) {
      if (!put_value(buffers[i], steps[i], columns[i], bytes)) return undecodable(d, i, error);
    } else if (has == Has::broken) {
      return undecodable(d, i, error);
    } else {
      put_null(buffers[i]);
    }
  }
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

// Inlined: calls took 15 % of the instructions of a row.
[[gnu::always_inline]] inline bool ColumnBatch::put_value(ColumnBuffer& buffer, const Step& step, const Column& column,
                                                          Bytes bytes) {
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
    case Value::text: return put_utf8(buffer, bytes);
    case Value::converted: return put_converted(buffer, column, bytes);
    case Value::compressed: return put_compressed(buffer, step, column, bytes);
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

inline bool ColumnBatch::put_utf8(ColumnBuffer& buffer, Bytes bytes) {
  return is_utf8(bytes.data, bytes.end()) ? put_bytes(buffer, bytes) : put_mended(buffer, bytes);
}

inline bool ColumnBatch::put_bytes(ColumnBuffer& buffer, Bytes bytes) {
  buffer.data.ensure(bytes.size);
  buffer.data.p = copy_exact(buffer.data.p, bytes.data, bytes.size);
  end_variable(buffer, rows_);
  return true;
}

// Adds a value as text. Texts themselves are added by put_utf8 and put_converted, which mend them.
bool ColumnBatch::put_as_text(ColumnBuffer& buffer, const Cell& cell) {
  Output& data = buffer.data;
  data.ensure(cell.step.room + cell.bytes.size);
  uint8_t* end = put_text(Target{data, 0}, data.p, cell, kPlain);
  if (!end) return false;
  data.p = end;
  end_variable(buffer, rows_);
  return true;
}

bool ColumnBatch::put_mended(ColumnBuffer& buffer, Bytes bytes) {
  put_bytes(buffer, bytes);
  mend_utf8(buffer.data.p - bytes.size, bytes.size);
  return put_raw(buffer, bytes);
}

bool ColumnBatch::put_converted(ColumnBuffer& buffer, const Column& column, Bytes bytes) {
  Output& data = buffer.data;
  data.ensure(bytes.size * Charset::kGrowth);
  const Converted done = column.conversion->convert(bytes, data.p);
  if (!done.valid) mend_utf8(data.p, done.size);
  data.p += done.size;
  end_variable(buffer, rows_);
  return (done.whole && done.valid) || put_raw(buffer, bytes);
}

bool ColumnBatch::put_compressed(ColumnBuffer& buffer, const Step& step, const Column& column, Bytes bytes) {
  Bytes value;
  if (!unpack_value(bytes, step.width, &value)) return false;
  if (is_binary(column)) return put_bytes(buffer, value);
  return column.conversion ? put_converted(buffer, column, value) : put_utf8(buffer, value);
}

// Adds the original bytes of a text that lost some of them to question marks, if the batch has a column for them.
bool ColumnBatch::put_raw(ColumnBuffer& buffer, Bytes bytes) {
  if (!buffer.side) return true;
  begin_sparse(*buffer.side);
  return put_bytes(*buffer.side, bytes);
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
  prefetch(buffer.values.at((row + 1) * kOffset));
  prefetch(buffer.data.p);
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
