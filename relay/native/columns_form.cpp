// Which columns a batch has.
#include "columns_form.hpp"

#include <algorithm>

namespace relay {

namespace {

using Shape = Lane::Shape;

constexpr size_t kFirstRows = 64;
constexpr unsigned kMaxPrecision = 38;  // of a decimal128
// Of a stream, beyond values and names: some 700 and 120 are the rule. A list is two columns there.
constexpr size_t kStreamBytes = 1024;
constexpr size_t kLaneBytes = 160;

bool is_moment(Value value) {
  switch (value) {
    case Value::date: case Value::old_datetime: case Value::old_timestamp: case Value::datetime: case Value::timestamp:
      return true;
    default:
      return false;
  }
}

bool is_text(const Step& step, const Column& column) {
  return step.value == Value::text || step.value == Value::converted ||
         (step.value == Value::compressed && !is_binary(column));
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

// An ENUM that prints this label and no label at all, number 0, alike.
bool has_empty_label(const Column& column) {
  return column.type == kEnum && std::find(column.labels.begin(), column.labels.end(), "") != column.labels.end();
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
  lanes_ = std::vector<Lane>(meta_ + (stream ? 0 : size_t{kTrailing}));
  if (stream) make_leading();
  size_t side = sides_;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Column& column = d.columns[i];
    Lane& lane = lanes_[own_ + i];
    make_own(own_ + i, steps[i], column);
    if (!has_side(i)) continue;
    if (is_moment(steps[i].value) || has_empty_label(column)) {
      make_lane(side, column.name + "__text", "u", Shape::sparse, 0);
    } else if (column.type == kGeometry) {
      make_lane(side, column.name + "__srid", "i", Shape::fixed, sizeof(int32_t));
    } else {
      make_lane(side, column.name + "__raw", "z", Shape::sparse, 0);
    }
    lane.side = &lanes_[side++];
  }
  if (!stream) make_trailing();
  fixed_bytes_ += 2 * (d.schema.size() + d.table.size());
  reserve(kFirstRows);
}

void ColumnBatch::make_own(size_t at, const Step& step, const Column& column) {
  Type type = type_of(step, column);
  if (form_ != Form::stream) {
    if (column.type == kBit && column.meta == 1) return make_lane(at, column.name, "b", Shape::bits, 1);
    if (step.value == Value::enumeration && !type.width) return make_labels(at, column, type.format);
    if (step.value == Value::json && form_ == Form::lake_binary_json) type.format = "z";
  }
  std::string format = format_of(step, type);
  Shape shape = type.width ? Shape::fixed : format == "+l" ? Shape::list : Shape::variable;
  make_lane(at, column.name, format, shape, type.width);
  if (shape == Shape::list && has_byte_labels(column)) lanes_[at].item_format = "z";
}

void ColumnBatch::make_lane(size_t at, std::string name, std::string format, Shape shape, uint32_t width) {
  Lane& lane = lanes_[at];
  lane.shape = shape;
  lane.width = width ? width : kOffset;
  lane.name = std::move(name);
  lane.format = std::move(format);
  row_bits_ += (shape == Shape::bits ? 1 : lane.width * 8) + 1;
  fixed_bytes_ += kLaneBytes + lane.name.size() + (shape == Shape::list ? kLaneBytes : 0);
  lane.data.ensure(0);
  if (has_offsets(shape)) {
    lane.values.ensure(kOffset);
    set_offset(lane.values, 0, 0);
  }
  if (shape != Shape::list && shape != Shape::coded) return;
  lane.items.ensure(kOffset);
  set_offset(lane.items, 0, 0);
  lane.items.p += kOffset;
  if (shape == Shape::coded) lane.dictionary = std::make_unique<Dictionary>();
}

void ColumnBatch::make_labels(size_t at, const Column& column, const char* format) {
  make_lane(at, column.name, "i", Shape::coded, sizeof(int32_t));
  Lane& lane = lanes_[at];
  lane.item_format = format;
  lane.dictionary->of_number.push_back(code_of(lane, ""));
  for (const std::string& label : column.labels) lane.dictionary->of_number.push_back(code_of(lane, label));
}

void ColumnBatch::make_leading() {
  make_lane(kSequence, "_sequence", "L", Shape::fixed, 8);
  make_lane(kChangeType, "_change_type", "u", Shape::variable, 0);
  make_lane(kPosition, "_position", "L", Shape::fixed, 8);
  for (size_t i = 0; i < kLeading; ++i) lanes_[i].nullable = false;
}

void ColumnBatch::make_trailing() {
  make_lane(meta_ + kChange, "_change_type", "c", Shape::coded, sizeof(int8_t));
  make_lane(meta_ + kCommitVersion, "_commit_version", "l", Shape::fixed, 8);
  make_lane(meta_ + kCommitTimestamp, "_commit_timestamp", "tsu:UTC", Shape::fixed, 8);
  make_lane(meta_ + kSeq, "_seq", "l", Shape::fixed, 8);
  make_lane(meta_ + kFile, "_file", "i", Shape::coded, sizeof(int32_t));
  make_lane(meta_ + kPos, "_pos", "l", Shape::fixed, 8);
  make_lane(meta_ + kGtid, "_gtid", "i", Shape::coded, sizeof(int32_t));
  for (const ChangeType& type : kChangeTypes) code_of(lanes_[meta_ + kChange], type.text);
}

void ColumnBatch::begin(const Origin& origin) {
  if (origin.version == origin_.version) return;
  origin_.version = origin.version;
  origin_.timestamp = origin.timestamp;
  file_ = code_of(lanes_[meta_ + kFile], std::string(origin.file));
  gtid_ = origin.gtid.empty() ? -1 : code_of(lanes_[meta_ + kGtid], std::string(origin.gtid));
}

// The number of a text in the lane's dictionary, which gets it if need be.
int32_t ColumnBatch::code_of(Lane& lane, const std::string& text) {
  auto [known, fresh] = lane.dictionary->known.try_emplace(text, static_cast<int32_t>(lane.dictionary->known.size()));
  if (fresh) {
    add_item(lane, text);
    variable_ += text.size() + kOffset;
  }
  return known->second;
}

std::vector<std::string> ColumnBatch::sides() const {
  std::vector<std::string> names;
  for (size_t i = sides_; i < meta_; ++i) {
    if (has_values(lanes_[i], rows_)) names.push_back(lanes_[i].name);
  }
  return names;
}

}  // namespace relay
