// Binary JSON and changes of parts of it. Input: u16 size of a document, the document, the changes.
#include "values/json.hpp"

#include "../native/build.hpp"
#include "fuzz.hpp"
#include "values/json_format.hpp"
#include "binlog/json_patch.hpp"
#include "binlog/json_path.hpp"

using namespace relay;
using build::bytes;

namespace {

bool printed(const std::string& document, std::string* text) {
  Output out;
  const std::vector<uint8_t> exact(document.begin(), document.end());
  if (!put_json(out, Bytes(exact.data(), exact.size()))) return false;
  text->assign(out.chars(), out.size());
  return true;
}

// One that adds an element and takes it away again leaves what there is.
void there_and_back(const std::string& document) {
  std::string before, after, changed;
  if (document.empty() || !printed(document, &before)) return;
  const auto tag = static_cast<uint8_t>(document[0]);
  const std::string path = is_json_object(tag) ? "$.\"new key\"" : "$[0]";
  const std::string at = static_cast<char>(path.size()) + path;
  const std::string changes = bytes("01") + at + bytes("02 04 00") + bytes("02") + at;
  if (!patch_json(Bytes(document), Bytes(changes), &changed)) return;
  REQUIRE(is_json_object(tag) || is_json_array(tag));
  REQUIRE(printed(changed, &after) && before == after);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t length = std::min<size_t>(load<uint16_t>(data), size - 2);
  const Bytes document(data + 2, length), changes(data + 2 + length, size - 2 - length);
  std::string text, changed = "kept";
  printed(std::string(document.text()), &text);
  std::vector<JsonLeg> legs;
  parse_json_path(changes.text(), &legs);
  if (!patch_json(document, changes, &changed)) {
    REQUIRE(changed == "kept");
    return 0;
  }
  changed.erase(0, 4);
  REQUIRE(changed.size() <= 2 * (document.size + changes.size) + 32);
  if (changes.size) {
    JsonValue value{static_cast<uint8_t>(changed.at(0)), Bytes(changed).from(1)};
    REQUIRE(value.trim() && value.bytes.size == changed.size() - 1);
  }
  there_and_back(changed);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string object = bytes("00 0100 0c00 0b00 0100 05 0100 'a'");  // {"a": 1}
  const auto sized = [](const std::string& document) {
    return std::string{static_cast<char>(document.size()), '\0'} + document;
  };
  return {
      sized(object) + bytes("00 03'$.a' 03 050200"),
      sized(object) + bytes("01 05'$.\"b\"' 05 0c03'xyz' 02 03'$.a'"),
      sized(object) + bytes("00 03'$.a' 06 02 0000 0400 01 09'$.a[last-1]' 02 0401 02 09'$.a[last]'"),
      sized(bytes("02 0200 0d00 04 0100 0f 0a00 0c 02 0401 03 00 00000000")),
  };
}
