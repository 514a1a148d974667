#include "payload.hpp"

#include "msgpack.hpp"
#include "values.hpp"

namespace relay {

namespace {

constexpr size_t kStringHead = 4;  // u32 length + 1
constexpr size_t kEmptyString = 5;
constexpr size_t kNameId = 4;  // in front of a name in PollV2 only

enum class Has : uint8_t { nothing, null, value, broken };

// Steps through the columns of one image.
class Image {
 public:
  Image(const Definition& d, const uint8_t* present, Bytes image) : present_(present), end_(image.end()) {
    size_t total = d.columns.size();
    for (size_t i = 0; i < total; ++i) columns_ += present[i >> 3] >> (i & 7) & 1;
    full_ = columns_ == total;
    size_t bitmap = (columns_ + 7) / 8;
    nulls_ = image.data;
    broken_ = bitmap > image.size;
    p_ = broken_ ? end_ : image.data + bitmap;
  }

  size_t columns() const { return columns_; }
  bool broken() const { return broken_; }
  bool holds(size_t i) const { return full_ || (present_[i >> 3] >> (i & 7) & 1); }

  // Column i, which is the one after the last asked for.
  Has next(size_t i, Extent extent, Bytes* bytes) {
    if (!holds(i)) return Has::nothing;
    size_t at = at_++;
    if (nulls_[at >> 3] >> (at & 7) & 1) return Has::null;
    auto left = static_cast<size_t>(end_ - p_);
    size_t size = extent.fixed;
    if (extent.prefix) {
      if (extent.prefix > left) return Has::broken;
      size = load_le(p_, extent.prefix);
      p_ += extent.prefix;
      left -= extent.prefix;
    }
    if (size > left) return Has::broken;
    *bytes = Bytes(p_, size);
    p_ += size;
    return Has::value;
  }

 private:
  const uint8_t* present_;
  const uint8_t* end_;
  const uint8_t* nulls_ = nullptr;
  const uint8_t* p_ = nullptr;
  size_t columns_ = 0;
  size_t at_ = 0;
  bool full_ = false;
  bool broken_ = false;
};

Output& scratch() {
  thread_local Output output;
  output.clear();
  return output;
}

std::string undecodable(const Row& row, size_t column) {
  const Definition& d = *row.definition;
  return "column " + d.columns[column].name + " of " + d.schema + "." + d.table + " holds bytes that are no value of its type";
}

std::string cut_short(const Row& row) {
  return "a row of " + row.definition->schema + "." + row.definition->table + " is cut short";
}

bool put_string(Output& out, const Step& step, const Column& column, Has has, Bytes bytes, const RenderOptions& options) {
  out.ensure(options.null_text.size() + kEmptyString);
  size_t start = out.size();
  out.p += kStringHead;
  if (has == Has::value) {
    if (!put_text(out, Cell{step, column, bytes}, options)) return false;
  } else if (has == Has::null) {
    std::memcpy(out.p, options.null_text.data(), options.null_text.size());
    out.p += options.null_text.size();
  }
  store(out.at(start), static_cast<uint32_t>(out.size() - start - kStringHead + 1));
  out.ensure(1);
  *out.p++ = 0;
  return true;
}

// NULL bitmaps of format 0; a column that its side's image leaves out counts as NULL.
struct Nulls {
  uint8_t before[512] = {};  // of 4096 columns
  uint8_t after[512] = {};
  uint32_t columns = 0;

  void add(Has has_before, Has has_after) {
    auto bit = static_cast<uint8_t>(1 << (columns & 7));
    if (has_before != Has::value) before[columns >> 3] |= bit;
    if (has_after != Has::value) after[columns >> 3] |= bit;
    ++columns;
  }
};

bool put_poll(Output& out, int version, const Row& row, uint32_t queue_size, const RenderOptions& options, Nulls* nulls,
              std::string* error) {
  const Definition& d = *row.definition;
  const Layout& layout = *d.layout;
  bool two = row.kind == RowKind::update;
  bool has_before = row.kind != RowKind::insert;
  Image first(d, row.before_present, row.before);
  Image second(d, two ? row.after_present : row.before_present, two ? row.after : row.before);
  if (first.broken() || second.broken()) {
    *error = cut_short(row);
    return false;
  }
  Span front = version == 1 ? layout.front1 : layout.front2;
  size_t skipped = version == 1 ? kNameId : 0;
  out.ensure(front.size + 16);
  *out.p = static_cast<uint8_t>(row.kind);
  store(out.p + 1, row.position);
  store(out.p + 9, queue_size);
  out.p = copy_padded(out.p + 13, layout.at(front), front.size);
  size_t count_at = out.size() - sizeof(uint32_t);
  uint32_t count = 0;
  for (size_t i = 0; i < layout.steps.size(); ++i) {
    if (!first.holds(i) && !(two && second.holds(i))) continue;
    ++count;
    const Step& step = layout.steps[i];
    const Column& column = d.columns[i];
    size_t head = step.head.size - skipped;
    const uint8_t* name = layout.at(step.head) + skipped;
    out.ensure(head + 2 * kEmptyString);
    out.p = copy_padded(out.p, name, has_before ? head : head + kEmptyString);
    Bytes bytes;
    Has before = Has::nothing, after = Has::nothing;
    if (has_before) {
      before = first.next(i, step.extent, &bytes);
      if (before == Has::broken || !put_string(out, step, column, before, bytes, options)) {
        *error = undecodable(row, i);
        return false;
      }
    }
    if (row.kind == RowKind::remove) {
      out.p = copy_padded(out.p, name + head, kEmptyString);
    } else {
      after = (two ? second : first).next(i, step.extent, &bytes);
      if (after == Has::broken || !put_string(out, step, column, after, bytes, options)) {
        *error = undecodable(row, i);
        return false;
      }
    }
    if (nulls) nulls->add(before, after);
  }
  store(out.at(count_at), count);
  return true;
}

bool put_map(Output& out, const Row& row, const uint8_t* present, Bytes bytes, const RenderOptions& options,
             std::string* error) {
  const Definition& d = *row.definition;
  const Layout& layout = *d.layout;
  Image image(d, present, bytes);
  if (image.broken()) {
    *error = cut_short(row);
    return false;
  }
  out.ensure(5);
  out.p = msgpack::put_head32(out.p, 0xdf, image.columns());
  for (size_t i = 0; i < layout.steps.size(); ++i) {
    const Step& step = layout.steps[i];
    Bytes value;
    Has has = image.next(i, step.extent, &value);
    if (has == Has::nothing) continue;
    out.ensure(step.key.size + 1);
    out.p = copy_padded(out.p, layout.at(step.key), step.key.size);
    if (has == Has::null) {
      *out.p++ = 0xc0;
    } else if (has == Has::broken || !put_typed(out, Cell{step, d.columns[i], value}, options)) {
      *error = undecodable(row, i);
      return false;
    }
  }
  return true;
}

}  // namespace

bool append_poll(std::string& out, int version, const Row& row, uint32_t queue_size, const RenderOptions& options,
                 std::string* error) {
  Output& written = scratch();
  if (!put_poll(written, version, row, queue_size, options, nullptr, error)) return false;
  out.append(written.chars(), written.size());
  return true;
}

bool append_many_text(std::string& out, uint64_t sequence, const Row& row, uint32_t queue_size, const RenderOptions& options,
                      std::string* error) {
  Output& written = scratch();
  Nulls nulls;
  written.ensure(sizeof sequence);
  store(written.p, sequence);
  written.p += sizeof sequence;
  if (!put_poll(written, 2, row, queue_size, options, &nulls, error)) return false;
  size_t bitmap = (nulls.columns + 7) / 8;
  written.ensure(2 * bitmap);
  if (row.kind != RowKind::insert) {
    std::memcpy(written.p, nulls.before, bitmap);
    written.p += bitmap;
  }
  if (row.kind != RowKind::remove) {
    std::memcpy(written.p, nulls.after, bitmap);
    written.p += bitmap;
  }
  out.append(written.chars(), written.size());
  return true;
}

bool append_many_msgpack(std::string& out, uint64_t sequence, const Row& row, const RenderOptions& options,
                         std::string* error) {
  Output& written = scratch();
  const Layout& layout = *row.definition->layout;
  written.ensure(layout.packed_front.size + 32);
  uint8_t* p = msgpack::put_array(written.p, 8);
  p = msgpack::put_u64(p, sequence);
  p = msgpack::put_small(p, static_cast<unsigned>(row.kind));
  p = msgpack::put_u64(p, row.position);
  written.p = copy_padded(p, layout.at(layout.packed_front), layout.packed_front.size);
  if (row.kind == RowKind::insert) *written.p++ = 0xc0;
  if (!put_map(written, row, row.before_present, row.before, options, error)) return false;
  if (row.kind == RowKind::update && !put_map(written, row, row.after_present, row.after, options, error)) return false;
  written.ensure(1);
  if (row.kind == RowKind::remove) *written.p++ = 0xc0;
  out.append(written.chars(), written.size());
  return true;
}

}  // namespace relay
