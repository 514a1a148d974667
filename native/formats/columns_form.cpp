// Sets up the columns of a batch.
#include "formats/columns_form.hpp"

#include <algorithm>

namespace relay {

namespace {

using Shape = ColumnBuffer::Shape;

constexpr size_t kFirstRows = 64;
constexpr unsigned kMaxPrecision = 38;  // of a decimal128
// For a stream, besides values and names: about 700 and 120 are usual. A list counts as two columns there.
constexpr size_t kStreamBytes = 1024;
constexpr size_t kBufferBytes = 160;

bool is_moment(Value value) {
  switch (value) {
    case Value::date:
    case Value::old_datetime:
    case Value::old_timestamp:
    case Value::datetime:
    case Value::timestamp: return true;
    default: return false;
  }
}

bool is_text(const Step& step, const Column& column) {
  return step.value == Value::text || step.value == Value::converted ||
         (step.value == Value::compressed && !is_binary(column));
}

struct Type {
  const char* format;
  uint32_t width;  // 0: variable
};

Type type_of(const Step& step, const Column& column) {
  switch (step.value) {
    case Value::int8: return {"c", 1};
    case Value::int16:
    case Value::uint8:
    case Value::year: return {"s", 2};
    case Value::int24:
    case Value::uint24:
    case Value::int32:
    case Value::uint16: return {"i", 4};
    case Value::int64:
    case Value::uint32:
    case Value::time:
    case Value::old_time: return {"l", 8};
    case Value::uint64: return {"d:20,0", 16};
    case Value::float32: return {"f", 4};
    case Value::float64: return {"g", 8};
    case Value::decimal: return step.precision <= kMaxPrecision ? Type{"d", 16} : Type{"u", 0};
    case Value::date: return {"tdD", 4};
    case Value::datetime:
    case Value::old_datetime: return {"tsu:", 8};
    case Value::timestamp:
    case Value::old_timestamp: return {"tsu:UTC", 8};
    case Value::enumeration: return column.labels.empty() ? Type{"i", 4} : Type{has_byte_labels(column) ? "z" : "u", 0};
    case Value::set: return column.labels.empty() ? Type{"d:20,0", 16} : Type{"+l", 0};
    case Value::raw:
    case Value::padded: return {"z", 0};
    case Value::compressed: return {is_binary(column) ? "z" : "u", 0};
    default: return {"u", 0};
  }
}

std::string format_of(const Step& step, const Type& type) {
  std::string format = type.format;
  if (format == "d") format += ":" + std::to_string(step.precision) + "," + std::to_string(step.digits);
  return format;
}

// Whether an ENUM has an empty label, which prints like number 0, the error value.
bool has_empty_label(const Column& column) {
  return column.type == kEnum && std::find(column.labels.begin(), column.labels.end(), "") != column.labels.end();
}

void grow(Dictionary& dictionary) {
  const size_t size = std::max<size_t>(2 * dictionary.slots.size(), 16), mask = size - 1;
  dictionary.hashes.reserve(size / 2);  // so that it takes what is added to the items
  dictionary.slots.assign(size, -1);
  for (size_t code = 0; code < dictionary.hashes.size(); ++code) {
    size_t at = dictionary.hashes[code] & mask;
    while (dictionary.slots[at] >= 0) at = (at + 1) & mask;
    dictionary.slots[at] = static_cast<int32_t>(code);
  }
}

}  // namespace

ColumnBatch::ColumnBatch(std::shared_ptr<const Definition> definition, Form form)
    : definition_(std::move(definition)), form_(form), fixed_bytes_(kStreamBytes) {
  const Definition& d = *definition_;
  const std::vector<Step>& steps = d.layout->steps;
  const bool stream = form == Form::stream;
  auto has_side = [&](size_t i) {
    bool more = is_text(steps[i], d.columns[i]) || d.columns[i].type == kGeometry || has_empty_label(d.columns[i]);
    return is_moment(steps[i].value) || (!stream && more);
  };
  own_ = stream ? size_t{kLeading} : 0;
  sides_ = meta_ = own_ + steps.size();
  for (size_t i = 0; i < steps.size(); ++i) meta_ += has_side(i);
  column_buffers_ = std::vector<ColumnBuffer>(meta_ + (stream ? 0 : size_t{kTrailing}));
  if (stream) make_leading();
  size_t side = sides_;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Column& column = d.columns[i];
    ColumnBuffer& buffer = column_buffers_[own_ + i];
    make_own(own_ + i, steps[i], column);
    if (!has_side(i)) continue;
    if (is_moment(steps[i].value) || has_empty_label(column)) {
      make_buffer(side, column.name + "__text", "u", Shape::sparse, 0);
    } else if (column.type == kGeometry) {
      make_buffer(side, column.name + "__srid", "i", Shape::fixed, sizeof(int32_t));
    } else {
      make_buffer(side, column.name + "__raw", "z", Shape::sparse, 0);
    }
    buffer.side = &column_buffers_[side++];
  }
  if (!stream) make_trailing();
  fixed_bytes_ += 2 * (d.schema.size() + d.table.size());
  reserve(kFirstRows);
}

void ColumnBatch::make_own(size_t at, const Step& step, const Column& column) {
  Type type = type_of(step, column);
  if (form_ != Form::stream) {
    if (column.type == kBit && column.meta == 1) return make_buffer(at, column.name, "b", Shape::bits, 1);
    if (step.value == Value::enumeration && !type.width) return make_labels(at, column, type.format);
    if (step.value == Value::json && form_ == Form::lake_binary_json) type.format = "z";
  }
  std::string format = format_of(step, type);
  Shape shape = type.width ? Shape::fixed : format == "+l" ? Shape::list : Shape::variable;
  make_buffer(at, column.name, format, shape, type.width);
  if (shape == Shape::list && has_byte_labels(column)) column_buffers_[at].item_format = "z";
}

void ColumnBatch::make_buffer(size_t at, std::string name, std::string format, Shape shape, uint32_t width) {
  ColumnBuffer& buffer = column_buffers_[at];
  buffer.shape = shape;
  buffer.width = width ? width : kOffset;
  buffer.name = std::move(name);
  buffer.format = std::move(format);
  row_bits_ += (shape == Shape::bits ? 1 : buffer.width * 8) + 1;
  fixed_bytes_ += kBufferBytes + buffer.name.size() + (shape == Shape::list ? kBufferBytes : 0);
  buffer.data.ensure(0);
  if (has_offsets(shape)) {
    buffer.values.ensure(kOffset);
    set_offset(buffer.values, 0, 0);
  }
  if (shape != Shape::list && shape != Shape::coded) return;
  buffer.items.ensure(kOffset);
  set_offset(buffer.items, 0, 0);
  buffer.items.p += kOffset;
  if (shape == Shape::coded) buffer.dictionary = std::make_unique<Dictionary>();
}

void ColumnBatch::make_labels(size_t at, const Column& column, const char* format) {
  make_buffer(at, column.name, "i", Shape::coded, sizeof(int32_t));
  ColumnBuffer& buffer = column_buffers_[at];
  buffer.item_format = format;
  buffer.dictionary->of_number.push_back(code_of(buffer, ""));
  for (const std::string& label : column.labels) buffer.dictionary->of_number.push_back(code_of(buffer, label));
}

void ColumnBatch::make_leading() {
  make_buffer(kSequence, "_sequence", "L", Shape::fixed, 8);
  make_buffer(kChangeType, "_change_type", "u", Shape::variable, 0);
  make_buffer(kPosition, "_position", "L", Shape::fixed, 8);
  for (size_t i = 0; i < kLeading; ++i) column_buffers_[i].nullable = false;
}

void ColumnBatch::make_trailing() {
  make_buffer(meta_ + kChange, "_change_type", "c", Shape::coded, sizeof(int8_t));
  make_buffer(meta_ + kCommitVersion, "_commit_version", "l", Shape::fixed, 8);
  make_buffer(meta_ + kCommitTimestamp, "_commit_timestamp", "tsu:UTC", Shape::fixed, 8);
  make_buffer(meta_ + kSeq, "_seq", "l", Shape::fixed, 8);
  make_buffer(meta_ + kFile, "_file", "i", Shape::coded, sizeof(int32_t));
  make_buffer(meta_ + kPos, "_pos", "l", Shape::fixed, 8);
  make_buffer(meta_ + kGtid, "_gtid", "i", Shape::coded, sizeof(int32_t));
  for (const ChangeType& type : kChangeTypes) code_of(column_buffers_[meta_ + kChange], type.text);
}

void ColumnBatch::begin(const Origin& origin) {
  if (origin.version == origin_.version) return;
  origin_.version = origin.version;
  origin_.timestamp = origin.timestamp;
  ColumnBuffer& files = column_buffers_[meta_ + kFile];
  const bool same_file = count_items(files) > 0 && item_at(files, static_cast<size_t>(file_)) == origin.file;
  if (!same_file) file_ = code_of(files, origin.file);
  gtid_ = origin.gtid.empty() ? -1 : code_of(column_buffers_[meta_ + kGtid], origin.gtid);
}

// The number of a text in the column's dictionary; adds the text if it is new.
int32_t ColumnBatch::code_of(ColumnBuffer& buffer, std::string_view text) {
  Dictionary& dictionary = *buffer.dictionary;
  if (2 * dictionary.hashes.size() >= dictionary.slots.size()) grow(dictionary);
  const size_t hash = std::hash<std::string_view>()(text), mask = dictionary.slots.size() - 1;
  size_t at = hash & mask;
  for (; dictionary.slots[at] >= 0; at = (at + 1) & mask) {
    const auto code = static_cast<size_t>(dictionary.slots[at]);
    if (dictionary.hashes[code] == hash && item_at(buffer, code) == text) return dictionary.slots[at];
  }
  add_item(buffer, text);
  dictionary.slots[at] = static_cast<int32_t>(dictionary.hashes.size());
  dictionary.hashes.push_back(hash);
  variable_ += text.size() + kOffset;
  return dictionary.slots[at];
}

std::vector<std::string> ColumnBatch::sides() const {
  std::vector<std::string> names;
  for (size_t i = sides_; i < meta_; ++i) {
    if (has_values(column_buffers_[i], rows_)) names.push_back(column_buffers_[i].name);
  }
  return names;
}

}  // namespace relay
