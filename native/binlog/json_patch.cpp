// Applying JSON changes on a tree of the parts that they touch.
#include "binlog/json_patch.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "binlog/json_path.hpp"
#include "values/json_format.hpp"

namespace relay {

namespace {

constexpr size_t kSmallest = 2, kLargest = 4;  // width of offsets
constexpr size_t kKeyLength = 2;

// A document as a tree, opened only as far as paths lead into it. The rest stays bytes.
struct Node;

struct Opened {
  bool object = false;
  unsigned width = kSmallest;  // width of the offsets when it is written
  size_t size = 0;             // size when it is written: see measure()
  std::vector<std::string_view> keys;
  std::vector<Node> elements;
};

struct Node {
  JsonValue value;
  std::unique_ptr<Opened> opened;  // replaces the value
};

bool shorter_or_less(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

size_t entry_size(const Opened& container, unsigned width) {
  return (container.object ? width + kKeyLength : 0) + 1 + width;
}

uint8_t tag_of(const Node& node) {
  if (!node.opened) return node.value.tag;
  bool small = node.opened->width == kSmallest;
  if (node.opened->object) return small ? kSmallObject : kLargeObject;
  return small ? kSmallArray : kLargeArray;
}

size_t size_of(const Node& node) { return node.opened ? node.opened->size : node.value.bytes.size; }

size_t size_with(const Opened& container, unsigned width) {
  size_t size = 2 * width + container.elements.size() * entry_size(container, width);
  for (std::string_view key : container.keys) size += key.size();
  for (const Node& each : container.elements) {
    if (!is_json_inlined(tag_of(each), width)) size += size_of(each);
  }
  return size;
}

// Chooses widths and sizes as the server does: the small layout whenever it fits.
void measure(Node* node) {
  if (!node->opened) return;
  Opened& container = *node->opened;
  for (Node& each : container.elements) measure(&each);
  container.width = kSmallest;
  container.size = size_with(container, kSmallest);
  if (container.size <= std::numeric_limits<uint16_t>::max()) return;
  container.width = kLargest;
  container.size = size_with(container, kLargest);
}

void put_le(std::string* out, uint64_t v, unsigned width) {
  for (unsigned i = 0; i < width; ++i) out->push_back(static_cast<char>(v >> (8 * i)));
}

// A number stored in place of an offset; signed numbers are sign-extended.
uint64_t inlined(const JsonValue& value) {
  uint64_t v = load_le(value.bytes.data, static_cast<unsigned>(value.bytes.size));
  if (value.tag == kInt16) return static_cast<uint64_t>(int64_t{static_cast<int16_t>(v)});
  return v;
}

// Writes the value without its tag.
void write(const Node& node, std::string* out) {
  if (!node.opened) {
    out->append(node.value.bytes.text());
    return;
  }
  const Opened& container = *node.opened;
  unsigned width = container.width;
  put_le(out, container.elements.size(), width);
  put_le(out, container.size, width);
  size_t offset = 2 * width + container.elements.size() * entry_size(container, width);
  for (std::string_view key : container.keys) {
    put_le(out, offset, width);
    put_le(out, key.size(), kKeyLength);
    offset += key.size();
  }
  for (const Node& each : container.elements) {
    uint8_t tag = tag_of(each);
    put_le(out, tag, 1);
    if (is_json_inlined(tag, width)) {
      put_le(out, inlined(each.value), width);
    } else {
      put_le(out, offset, width);
      offset += size_of(each);
    }
  }
  for (std::string_view key : container.keys) out->append(key);
  for (const Node& each : container.elements) {
    if (!is_json_inlined(tag_of(each), width)) write(each, out);
  }
}

class Patch {
 public:
  // The budget is enough to open each entry of the document and the changes once. Only crafted input needs more.
  Patch(Bytes before, size_t changes) : budget_(before.size + changes) {
    static const uint8_t kNull[] = {kLiteral, 0};  // for a value without bytes
    readable_ = take(before.size ? before : Bytes(kNull, sizeof kNull), &root_);
  }

  bool apply(Bytes changes) {
    if (!readable_) return false;
    Reader in(changes);
    while (in.left()) {
      if (!change(in)) return false;
    }
    return true;
  }

  bool write_to(std::string* out, size_t most) {
    measure(&root_);
    if (size_of(root_) > most) return false;
    out->push_back(static_cast<char>(tag_of(root_)));
    write(root_, out);
    return true;
  }

 private:
  enum Operation : uint8_t { kReplace = 0, kInsert = 1, kRemove = 2 };

  static bool take(Bytes document, Node* out) {
    if (!document.size) return false;
    out->value = JsonValue{document.data[0], document.from(1)};
    return out->value.trim();
  }

  bool change(Reader& in) {
    uint8_t operation = in.u8();
    Bytes path = in.take(in.lenenc());
    if (!in.ok() || operation > kRemove) return false;
    std::vector<JsonLeg>& legs = kept_.emplace_back();
    if (!parse_json_path(path.text(), &legs)) return false;
    if (operation == kRemove) return !legs.empty() && remove(legs);
    Node value;
    Bytes document = in.take(in.lenenc());
    if (!in.ok() || !take(document, &value)) return false;
    if (operation == kInsert) return !legs.empty() && insert(legs, std::move(value));
    Node* found = find(legs, legs.size());
    if (found) *found = std::move(value);
    return found;
  }

  bool insert(const std::vector<JsonLeg>& legs, Node value) {
    Node* parent = find(legs, legs.size() - 1);
    const JsonLeg& leg = legs.back();
    if (!parent || !open(parent, legs.size() - 1)) return false;
    Opened& container = *parent->opened;
    if (leg.member != container.object) return false;
    size_t at = leg.member ? place_of(container, leg.key) : leg.place(container.elements.size());
    auto offset = static_cast<std::ptrdiff_t>(at);
    if (leg.member) {
      if (leg.key.size() > std::numeric_limits<uint16_t>::max() || is_at(container, at, leg.key)) return false;
      container.keys.insert(container.keys.begin() + offset, leg.key);
    }
    container.elements.insert(container.elements.begin() + offset, std::move(value));
    return true;
  }

  bool remove(const std::vector<JsonLeg>& legs) {
    Node* parent = find(legs, legs.size() - 1);
    if (!parent || !open(parent, legs.size() - 1)) return false;
    Opened& container = *parent->opened;
    size_t at;
    if (!meant(container, legs.back(), &at)) return false;
    auto offset = static_cast<std::ptrdiff_t>(at);
    if (container.object) container.keys.erase(container.keys.begin() + offset);
    container.elements.erase(container.elements.begin() + offset);
    return true;
  }

  // The value at the first `count` legs. A value that is not an array counts as an array with itself as the only
  // element.
  Node* find(const std::vector<JsonLeg>& legs, size_t count) {
    Node* node = &root_;
    for (size_t i = 0; i < count; ++i) {
      const JsonLeg& leg = legs[i];
      if (!leg.member && !is_json_array(tag_of(*node))) {
        if (leg.index != 0) return nullptr;
        continue;
      }
      size_t at;
      if (!open(node, i) || !meant(*node->opened, leg, &at)) return nullptr;
      node = &node->opened->elements[at];
    }
    return node;
  }

  // Finds the existing element that the leg names.
  static bool meant(const Opened& container, const JsonLeg& leg, size_t* at) {
    if (leg.member != container.object) return false;
    if (!leg.member) {
      *at = leg.place(container.elements.size());
      return leg.within(container.elements.size());
    }
    *at = place_of(container, leg.key);
    return is_at(container, *at, leg.key);
  }

  static size_t place_of(const Opened& container, std::string_view key) {
    auto found = std::lower_bound(container.keys.begin(), container.keys.end(), key, shorter_or_less);
    return static_cast<size_t>(found - container.keys.begin());
  }

  static bool is_at(const Opened& container, size_t at, std::string_view key) {
    return at < container.keys.size() && container.keys[at] == key;
  }

  bool open(Node* node, size_t depth) {
    if (node->opened) return true;
    JsonContainer in;
    if (depth >= kJsonDepth || !JsonContainer::parse(node->value, &in) || in.count > budget_) return false;
    budget_ -= in.count;
    auto opened = std::make_unique<Opened>();
    opened->object = in.object;
    opened->elements.resize(in.count);
    if (in.object) opened->keys.resize(in.count);
    for (size_t i = 0; i < in.count; ++i) {
      Bytes key;
      if (in.object && !in.key(i, &key)) return false;
      if (in.object) opened->keys[i] = key.text();
      JsonValue& value = opened->elements[i].value;
      if (!in.value(i, &value) || !value.trim()) return false;
    }
    node->opened = std::move(opened);
    return true;
  }

  size_t budget_;
  bool readable_ = false;
  Node root_;
  std::vector<std::vector<JsonLeg>> kept_;  // keys that were inserted point into these
};

}  // namespace

bool patch_json(Bytes before, Bytes changes, std::string* out) {
  if (!changes.size) {
    out->append(before.text());
    return true;
  }
  // A layout with wide offsets takes less than twice the space of a narrow one.
  size_t most = 2 * (before.size + changes.size) + 16;
  Patch patch(before, changes.size);
  return patch.apply(changes) && patch.write_to(out, most);
}

}  // namespace relay
