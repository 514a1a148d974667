// Definitions and row bodies made by hand, for tests of the native core.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/msgpack.hpp"
#include "values/definition.hpp"

namespace relay::build {

struct ColumnSpec {
  std::string name;
  uint8_t type = 0;
  uint16_t meta = 0;
  bool is_unsigned = false;
  std::string charset = {};
  std::vector<std::string> labels = {};
  std::string sql_type = {};
};

class Packer {
 public:
  void array(size_t n) { head(0xdd, n); }
  void uint(uint64_t v) {
    uint8_t bytes[9];
    msgpack::put_u64(bytes, v);
    add(bytes, sizeof bytes);
  }
  void boolean(bool v) { out.push_back(static_cast<char>(v ? 0xc3 : 0xc2)); }
  void str(const std::string& s) {
    head(0xdb, s.size());
    out += s;
  }
  std::string out;

 private:
  void head(uint8_t tag, size_t n) {
    uint8_t bytes[5];
    msgpack::put_head32(bytes, tag, n);
    add(bytes, sizeof bytes);
  }
  void add(const uint8_t* p, size_t n) { out.append(reinterpret_cast<const char*>(p), n); }
};

inline std::string packed(const std::vector<ColumnSpec>& columns, const std::string& table = "orders") {
  Packer p;
  p.array(7);
  p.str("shop");
  p.str(table);
  p.uint(7);
  p.uint(1);
  p.uint(2);
  p.boolean(true);
  p.array(columns.size());
  uint32_t id = 0;
  for (const ColumnSpec& c : columns) {
    p.array(10);
    p.str(c.name);
    p.uint(++id);
    p.uint(c.type);
    p.uint(c.meta);
    p.boolean(c.is_unsigned);
    p.boolean(true);
    p.boolean(id == 1);
    p.str(c.charset);
    p.array(c.labels.size());
    for (const std::string& label : c.labels) p.str(label);
    p.str(c.sql_type);
  }
  return p.out;
}

inline std::shared_ptr<const Definition> definition(const std::vector<ColumnSpec>& columns) {
  std::string error;
  auto d = Definition::parse(Bytes(packed(columns)), &error);
  if (!d) {
    std::fprintf(stderr, "no definition: %s\n", error.c_str());
    std::exit(1);
  }
  return d;
}

// "0a ff 'text'" as bytes: hexadecimal pairs, blanks, and text between quotes.
inline std::string bytes(const std::string& spec) {
  std::string out;
  for (size_t i = 0; i < spec.size();) {
    if (spec[i] == ' ') {
      ++i;
    } else if (spec[i] == '\'') {
      size_t close = spec.find('\'', i + 1);
      out += spec.substr(i + 1, close - i - 1);
      i = close + 1;
    } else {
      out.push_back(static_cast<char>(std::stoi(spec.substr(i, 2), nullptr, 16)));
      i += 2;
    }
  }
  return out;
}

inline int failures = 0;

inline void expect(bool condition, const char* what, const char* file, int line) {
  if (condition) return;
  std::fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
  ++failures;
}

#define EXPECT(condition) ::relay::build::expect((condition), #condition, __FILE__, __LINE__)

}  // namespace relay::build
