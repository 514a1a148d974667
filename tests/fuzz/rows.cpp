// Row bodies against a table with a column of every type: what the walk accepts must be decodable without harm.
// Input: rowsinput.hpp.
#include "base/bitmap.hpp"
#include "binlog/rows_partial.hpp"
#include "formats/arrow_abi.hpp"
#include "formats/columns.hpp"
#include "formats/line_form.hpp"
#include "rowsinput.hpp"
#include "values/payload.hpp"

using namespace relay;

namespace {

size_t width_of(const char* format) {
  switch (format[0]) {
    case 'c': return 1;
    case 's': return 2;
    case 'i':
    case 'f': return 4;
    case 'd': return 16;
    case 't': return format[1] == 'd' ? 4 : 8;
    default: return 8;
  }
}

bool is_valid(const ArrowArray& array, int64_t i) {
  return !array.buffers[0] || bit(static_cast<const uint8_t*>(array.buffers[0]), static_cast<size_t>(i));
}

// Both hold the same, and what Arrow libraries take on trust is so: offsets begin with 0, never fall, and are those of
// data.
void compare(const ArrowSchema& schema, const ArrowArray& a, const ArrowArray& b) {
  REQUIRE(a.length == b.length);
  const char kind = schema.format[0];
  if (schema.format == std::string("+s")) {
    for (int64_t i = 0; i < a.n_children; i++) {
      REQUIRE(a.children[i]->length == a.length);
      compare(*schema.children[i], *a.children[i], *b.children[i]);
    }
    return;
  }
  for (int64_t i = 0; i < a.length; i++) REQUIRE(is_valid(a, i) == is_valid(b, i));
  const auto length = static_cast<size_t>(a.length);
  if (schema.dictionary) {
    compare(*schema.dictionary, *a.dictionary, *b.dictionary);
    for (int64_t i = 0; i < a.length; i++) {
      const auto* numbers = static_cast<const int8_t*>(a.buffers[1]);
      const int32_t number = kind == 'c' ? numbers[i] : load<int32_t>(numbers + i * 4);
      REQUIRE(!is_valid(a, i) || (number >= 0 && number < a.dictionary->length));
    }
  }
  if (kind == 'b') {
    const auto *bits = static_cast<const uint8_t*>(a.buffers[1]), *others = static_cast<const uint8_t*>(b.buffers[1]);
    for (size_t i = 0; i < length; i++) REQUIRE(bit(bits, i) == bit(others, i));
    return;
  }
  if (kind != 'u' && kind != 'z' && kind != '+') {
    REQUIRE(std::memcmp(a.buffers[1], b.buffers[1], length * width_of(schema.format)) == 0);
    return;
  }
  const auto* offsets = static_cast<const int32_t*>(a.buffers[1]);
  REQUIRE(std::memcmp(offsets, b.buffers[1], (length + 1) * sizeof *offsets) == 0);
  REQUIRE(offsets[0] == 0);
  for (size_t i = 0; i < length; i++) REQUIRE(offsets[i] <= offsets[i + 1]);
  if (kind == '+') {
    REQUIRE(a.children[0]->length == offsets[length]);
    compare(*schema.children[0], *a.children[0], *b.children[0]);
  } else {
    REQUIRE(std::memcmp(a.buffers[2], b.buffers[2], static_cast<size_t>(offsets[length])) == 0);
  }
}

void compare_given(const std::shared_ptr<ColumnBatch>& one, const std::shared_ptr<ColumnBatch>& other) {
  ArrowSchema schema, other_schema;
  ArrowArray array, other_array;
  ColumnBatch::give(one, &schema, &array);
  ColumnBatch::give(other, &other_schema, &other_array);
  compare(schema, array, other_array);
  schema.release(&schema);
  other_schema.release(&other_schema);
  array.release(&array);
  other_array.release(&other_array);
}

// Rows as columns, and the same with every row taken back once.
class Columned {
 public:
  void add(const std::shared_ptr<const Definition>& definition, const Row& row) {
    std::string error;
    const size_t before = hesitant_.stream_bytes();
    const ColumnBatch::Added added = straight_.add(definition, row, 1, &error);
    REQUIRE(added == ColumnBatch::Added::yes || !error.empty());
    REQUIRE(hesitant_.add(definition, row, 1, &error) == added);
    if (added == ColumnBatch::Added::yes) {
      hesitant_.undo();
      REQUIRE(before == 0 || hesitant_.stream_bytes() == before);
      REQUIRE(hesitant_.add(definition, row, 1, &error) == added);
    }
    REQUIRE(straight_.stream_bytes() == hesitant_.stream_bytes());
  }

  void compare_both() {
    const auto straight = straight_.take(), hesitant = hesitant_.take();
    REQUIRE(straight.size() == hesitant.size());
    for (size_t i = 0; i < straight.size(); i++) compare_given(straight[i], hesitant[i]);
  }

 private:
  ColumnBatches straight_, hesitant_;
};

// The same in the lake's form, where the second batch goes from one transaction to the next meanwhile.
class Laked {
 public:
  Laked(const std::shared_ptr<const Definition>& definition, Form form)
      : straight_(std::make_shared<ColumnBatch>(definition, form)),
        hesitant_(std::make_shared<ColumnBatch>(definition, form)) {}

  void add(const Row& row) {
    std::string error;
    origin_.version += row.kind != RowKind::insert;
    straight_->begin(origin_);
    hesitant_->begin(origin_);
    const ColumnBatch::Added added = straight_->add(row, 1, &error);
    REQUIRE(added == ColumnBatch::Added::yes || !error.empty());
    const size_t rows = hesitant_->rows(), bytes = hesitant_->stream_bytes();
    REQUIRE(hesitant_->add(row, 1, &error) == added);
    hesitant_->cut(rows);
    REQUIRE(hesitant_->stream_bytes() == bytes);
    REQUIRE(hesitant_->add(row, 1, &error) == added);
    REQUIRE(straight_->stream_bytes() == hesitant_->stream_bytes());
  }

  void compare_both() {
    REQUIRE(straight_->sides() == hesitant_->sides());
    compare_given(straight_, hesitant_);
  }

 private:
  Origin origin_{1, 1700000000, "binlog.000001", "0-1-1"};
  std::shared_ptr<ColumnBatch> straight_, hesitant_;
};

// As a line of the log: what can be printed can be logged, and a line ends once.
void log_line(const LineTable& table, const Row& row, bool printable) {
  Output out;
  std::string error;
  const std::string head = table.head(row.kind, {1700000000, -3600, "binlog.000001", row.position, "0-1-1"});
  REQUIRE(table.append(out, row, head, RenderOptions(), &error) == printable);
  REQUIRE(printable || !error.empty());
  const std::string_view line(out.chars(), out.size());
  if (printable) REQUIRE(line.find('\n') == line.size() - 1 && line.substr(0, head.size()) == head);
}

void render(const std::shared_ptr<const Definition>& shared, RowKind kind, const RowsBody& body, uint32_t rows) {
  const Definition& definition = *shared;
  const RenderOptions options;
  Columned columned;
  Laked laked(shared, Form::lake), laked_bytes(shared, Form::lake_binary_json);
  const LineTable csv(shared, LineForm::csv), json(shared, LineForm::json);
  const uint8_t* at = body.images.data;
  for (uint32_t i = 0; i < rows; i++) {
    Row row;
    row.definition = &definition;
    row.kind = kind;
    row.before_present = body.before;
    row.after_present = body.after;
    const uint8_t* middle = skip_image(definition, body.before, at, body.images.end());
    REQUIRE(middle);
    row.before = Bytes(at, static_cast<size_t>(middle - at));
    at = middle;
    if (body.after) {
      at = skip_image(definition, body.after, middle, body.images.end());
      REQUIRE(at);
      row.after = Bytes(middle, static_cast<size_t>(at - middle));
    }
    std::string error;
    Output out;
    auto begin = [&out] {
      out.clear();
      out.ensure(4);
      out.p = put_chars(out.p, "kept");
    };
    auto untouched = [&out] { return std::string_view(out.chars(), out.size()) == "kept"; };
    bool printable = true;
    begin();
    for (int version : {1, 2}) {
      printable = append_poll(out, version, row, 0, options, &error);
      if (!printable) REQUIRE(untouched() && !error.empty());
      begin();
    }
    log_line(csv, row, printable);
    log_line(json, row, printable);
    if (!append_many_text(out, 1, row, 0, options, &error)) REQUIRE(untouched());
    begin();
    if (!append_many_msgpack(out, 1, row, options, &error)) REQUIRE(untouched());
    begin();
    if (!append_many_extended(out, 1, row, options, &error)) REQUIRE(untouched());
    begin();
    for (ValueForm form : {ValueForm::text, ValueForm::typed, ValueForm::extended}) {
      if (!append_sides(out, row, form, options, &error)) REQUIRE(untouched());
      begin();
    }
    columned.add(shared, row);
    laked.add(row);
    laked_bytes.add(row);
  }
  columned.compare_both();
  laked.compare_both();
  laked_bytes.compare_both();
  REQUIRE(at == body.images.end());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const RowsInput input(Bytes(data, size));
  if (!input.definition) return 0;
  const Definition& definition = *input.definition;
  const RowKind kind = input.kind;
  const std::vector<bool>& keep = input.keep;
  Bytes bytes_of_body = input.body;
  std::string completed, completed_in_part;
  if (input.partial) {
    complete_rows(definition, bytes_of_body, keep, &completed_in_part);
    if (complete_rows(definition, bytes_of_body, {}, &completed) != Completed::yes) return 0;
    bytes_of_body = Bytes(completed);
  }
  RowsBody body;
  if (!RowsBody::parse(bytes_of_body, kind, &body)) return 0;
  const Walk walk = walk_rows(definition, body);
  REQUIRE(walk.ok || completed.empty());
  std::string without;
  const bool copied = copy_without(definition, kind, body, keep, &without);
  if (!walk.ok) return 0;
  REQUIRE(copied);
  render(input.definition, kind, body, walk.rows);
  return 0;
}

std::vector<std::string> fuzz_seeds() { return rows_seeds(); }
