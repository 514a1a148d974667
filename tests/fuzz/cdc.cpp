// Rows of any table as clients of the CDC protocol get them: every record of Avro is one of its schema, every line is
// JSON with the fields of its schema, and both say the same, in either form of values. Input: rowsinput.hpp.
#include <charconv>
#include <cmath>

#include "serve/cdc_form.hpp"
#include "values/payload.hpp"
#include "rowsinput.hpp"
#include "base/utf8.hpp"

using namespace relay;

namespace {

constexpr CdcOrigin kOrigin{{7, 3000000000, 5000000003}, 4000000000};
const std::string kHead = "{\"domain\": 7, \"server_id\": 3000000000, \"sequence\": 5000000003, \"event_number\": ";
const char* const kImages[] = {"insert", "update_before", "update_after", "delete"};

// What both forms have of a value.
struct Told {
  enum class What : uint8_t { null, number, text, bytes } what = What::null;
  int64_t integer = 0;
  double real = 0;
  std::string text;
};

bool all_utf8(std::string_view text) {
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    const size_t n = utf8_length(p + at, text.size() - at);
    if (!n) return false;
    at += n;
  }
  return true;
}

class AvroRecords {
 public:
  explicit AvroRecords(Bytes bytes) : in_(bytes) {}

  int64_t number() {
    uint64_t bits = 0;
    for (unsigned shift = 0;; shift += 7) {
      REQUIRE(shift < 64);
      const uint8_t byte = in_.u8();
      REQUIRE(in_.ok());
      bits |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return static_cast<int64_t>(bits >> 1 ^ (0 - (bits & 1)));
    }
  }
  Told value(const CdcField& field) {
    Told told;
    const int64_t branch = number();
    REQUIRE(branch >= 0 && branch <= (field.wide ? 2 : 1));
    if (branch == 0) return told;
    if (branch == 2 || field.type == "string" || field.type == "bytes") {
      const bool bytes = branch == 1 && field.type == "bytes";
      told.what = bytes ? Told::What::bytes : Told::What::text;
      const int64_t size = number();
      REQUIRE(size >= 0);
      told.text = in_.take(static_cast<size_t>(size)).text();
      REQUIRE(in_.ok() && (bytes || all_utf8(told.text)));
      return told;
    }
    told.what = Told::What::number;
    if (field.type == "int" || field.type == "long") {
      told.integer = number();
      REQUIRE(field.type == "long" || (told.integer >= INT32_MIN && told.integer <= INT32_MAX));
      return told;
    }
    REQUIRE(field.type == "float" || field.type == "double");
    const Bytes real = in_.take(field.type == "float" ? 4 : 8);
    REQUIRE(in_.ok());
    told.real = real.size == 4 ? load<float>(real.data) : load<double>(real.data);
    return told;
  }
  size_t left() const { return in_.left(); }

 private:
  Reader in_;
};

class JsonLines {
 public:
  explicit JsonLines(std::string_view text) : left_(text) {}

  void expect(std::string_view text) {
    REQUIRE(left_.substr(0, text.size()) == text);
    left_.remove_prefix(text.size());
  }
  Told value(const CdcField& field) {
    Told told;
    if (left_[0] == 'n') {
      expect("null");
    } else if (left_[0] == '"') {
      told.what = Told::What::text;
      told.text = string();
    } else {
      told.what = Told::What::number;
      const size_t size = left_.find_first_not_of("0123456789+-.e");
      REQUIRE(size != left_.npos && size > 0);
      const std::string_view number = left_.substr(0, size);
      const bool integer = field.type == "int" || field.type == "long";
      REQUIRE(integer == (number.find_first_of(".e") == number.npos));
      const size_t digits = number[0] == '-';
      REQUIRE(number.size() > digits && number[digits] >= '0' && number[digits] <= '9');
      REQUIRE(number[digits] != '0' || number.size() == digits + 1 || number[digits + 1] == '.' ||
              number[digits + 1] == 'e');
      const char* end = number.data() + size;
      const auto parsed = integer ? std::from_chars(number.data(), end, told.integer)
                                  : std::from_chars(number.data(), end, told.real);
      REQUIRE(parsed.ec == std::errc() && parsed.ptr == end);
      left_.remove_prefix(size);
    }
    return told;
  }
  bool empty() const { return left_.empty(); }

 private:
  std::string string() {
    std::string text;
    expect("\"");
    while (left_[0] != '"') {
      const auto byte = static_cast<uint8_t>(left_[0]);
      REQUIRE(byte >= ' ');
      left_.remove_prefix(1);
      text += byte == '\\' ? escaped() : static_cast<char>(byte);
    }
    expect("\"");
    REQUIRE(all_utf8(text));
    return text;
  }
  char escaped() {
    static const std::string kLetters = "\"\\bfnrt", kMeant = "\"\\\b\f\n\r\t";
    const char letter = left_[0];
    left_.remove_prefix(1);
    if (letter != 'u') {
      REQUIRE(kLetters.find(letter) != kLetters.npos);
      return kMeant[kLetters.find(letter)];
    }
    expect("00");
    unsigned code = 0;
    const auto parsed = std::from_chars(left_.data(), left_.data() + 2, code, 16);
    REQUIRE(parsed.ptr == left_.data() + 2 && code < ' ');
    left_.remove_prefix(2);
    return static_cast<char>(code);
  }

  std::string_view left_;
};

std::string hex(std::string_view bytes) {
  static const char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (const char c : bytes) {
    digits += kDigits[static_cast<uint8_t>(c) >> 4];
    digits += kDigits[c & 15];
  }
  return digits;
}

void compare(const Told& json, const Told& avro) {
  switch (avro.what) {
    case Told::What::null: REQUIRE(json.what == Told::What::null); break;
    case Told::What::text: REQUIRE(json.what == Told::What::text && json.text == avro.text); break;
    case Told::What::bytes:
      REQUIRE(json.what == Told::What::text && (json.text == avro.text || json.text == hex(avro.text)));
      break;
    case Told::What::number:
      if (!std::isfinite(avro.real)) {
        REQUIRE(json.what == Told::What::null);
      } else {
        REQUIRE(json.what == Told::What::number && json.integer == avro.integer);
        REQUIRE(json.real == avro.real || static_cast<float>(json.real) == static_cast<float>(avro.real));
      }
  }
}

// The images of an event, one behind the other in one block.
void write(const std::shared_ptr<const Definition>& definition, RowKind kind, const RowsBody& body, uint64_t images,
           CdcValues values) {
  const CdcTable lines(definition, CdcForm::json, values), records(definition, CdcForm::avro, values);
  const std::vector<CdcField>& fields = lines.fields();
  REQUIRE(fields == records.fields() && fields.size() == definition->columns.size());
  Output json, avro;
  std::vector<CdcImage> kinds;
  const uint8_t* at = body.images.data;
  for (uint64_t i = 0; i < images; i++) {
    const bool second = body.after && i % 2;
    const CdcImage image = body.after                ? second ? CdcImage::update_after : CdcImage::update_before
                           : kind == RowKind::remove ? CdcImage::remove
                                                     : CdcImage::insert;
    const uint8_t* present = second ? body.after : body.before;
    const uint8_t* next = skip_image(*definition, present, at, body.images.end());
    REQUIRE(next);
    const Bytes bytes(at, static_cast<size_t>(next - at));
    at = next;
    std::string error, other;
    const bool made = lines.append(json, kOrigin, i + 1, image, present, bytes, RenderOptions(), &error);
    REQUIRE(made || !error.empty());
    REQUIRE(records.append(avro, kOrigin, i + 1, image, present, bytes, RenderOptions(), &other) == made);
    REQUIRE(other == error);
    if (!made) return;  // an event is sent whole or not at all
    kinds.push_back(image);
  }
  JsonLines text(std::string_view(json.chars(), json.size()));
  AvroRecords records_in(Bytes(avro.chars(), avro.size()));
  for (size_t i = 0; i < kinds.size(); i++) {
    const auto number = static_cast<int64_t>(i) + 1;
    text.expect(kHead + std::to_string(number) + ", \"timestamp\": 4000000000, \"event_type\": \"" +
                kImages[static_cast<size_t>(kinds[i])] + "\"");
    for (const int64_t each : {int64_t{7}, int64_t{3000000000}, int64_t{5000000003}, number, int64_t{4000000000},
                               static_cast<int64_t>(kinds[i])})
      REQUIRE(records_in.number() == each);
    for (const CdcField& field : fields) {
      text.expect(", \"" + field.name + "\": ");
      const Told told = text.value(field);
      compare(told, records_in.value(field));
    }
    text.expect("}\n");
  }
  REQUIRE(text.empty() && records_in.left() == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const RowsInput input(Bytes(data, size));
  RowsBody body;
  if (!input.definition || !RowsBody::parse(input.body, input.kind, &body) || !body.full) return 0;
  const Walk walk = walk_rows(*input.definition, body);
  if (!walk.ok || input.definition->columns.empty()) return 0;
  const uint64_t images = body.after ? 2 * uint64_t{walk.rows} : walk.rows;
  for (const CdcValues values : {CdcValues::exact, CdcValues::maxscale})
    write(input.definition, input.kind, body, images, values);
  return 0;
}

std::vector<std::string> fuzz_seeds() { return rows_seeds(); }
