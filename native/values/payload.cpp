// Writers of reply payloads.
#include "values/payload.hpp"

#include "base/msgpack.hpp"
#include "values/image.hpp"
#include "values/values.hpp"

namespace relay {

namespace {

constexpr size_t kStringHead = 4;  // u32 length + 1
constexpr size_t kEmptyString = 5;
constexpr size_t kNameId = 4;  // before a name in PollV2 only
constexpr uint8_t kNil = 0xc0, kMap32 = 0xdf;

Output& scratch() {
  thread_local Output output;
  output.clear();
  return output;
}

bool undecodable(const Row& row, size_t column, std::string* error) {
  const Definition& d = *row.definition;
  *error = "column " + d.columns[column].name + " of " + d.schema + "." + d.table;
  *error += " holds bytes that are no value of its type";
  return false;
}

bool cut_short(const Row& row, std::string* error) {
  *error = "a row of " + row.definition->schema + "." + row.definition->table + " is cut short";
  return false;
}

size_t room_for(const Row& row, const RenderOptions& options) {
  const Layout& layout = *row.definition->layout;
  return layout.row_room + row.before.size + row.after.size + 2 * layout.steps.size() * options.null_text.size();
}

// Writes a classic protocol string. A column that its side leaves out is empty. Returns nullptr if the value is
// invalid.
inline uint8_t* put_string(const Target& to, uint8_t* p, const Cell& cell, Has has, const RenderOptions& options) {
  size_t start = to.out.offset(p);
  uint8_t* end = p + kStringHead;
  if (has == Has::value) {
    end = put_text(to, end, cell, options);
    if (!end) return nullptr;
  } else if (has == Has::null) {
    end = copy_exact(end, reinterpret_cast<const uint8_t*>(options.null_text.data()), options.null_text.size());
  } else if (has == Has::broken) {
    return nullptr;
  }
  p = to.out.at(start);
  store(p, static_cast<uint32_t>(end - p - kStringHead + 1));
  *end = 0;
  return end + 1;
}

// One instance per row kind: images that a kind lacks take no time, and the others stay in registers.
template <RowKind kind>
bool put_poll_of(Output& out, int version, const Row& row, uint32_t queue_size, const RenderOptions& options,
                 std::string* error) {
  constexpr bool two = kind == RowKind::update, has_before = kind != RowKind::insert;
  const Definition& d = *row.definition;
  const Layout& layout = *d.layout;
  Image first(d, row.before_present, row.before);
  Image second;
  if (two) second = Image(d, row.after_present, row.after);
  if (first.broken() || second.broken()) return cut_short(row, error);
  Span front = version == 1 ? layout.front1 : layout.front2;
  size_t skipped = version == 1 ? kNameId : 0;
  Target to{out, room_for(row, options)};
  out.ensure(to.row_room);
  uint8_t* p = out.p;
  *p = static_cast<uint8_t>(kind);
  store(p + 1, row.position);
  store(p + 9, queue_size);
  p = copy_padded(p + 13, layout.at(front), front.size);
  size_t count_at = out.offset(p) - sizeof(uint32_t);
  uint32_t count = 0;
  Bytes bytes;
  const Step* const steps = layout.steps.data();
  const Column* const named = d.columns.data();
  const size_t columns = layout.steps.size();
  for (size_t i = 0; i < columns; ++i) {
    if (!first.holds(i) && !(two && second.holds(i))) continue;
    ++count;
    const Step& step = steps[i];
    size_t head = step.head.size - skipped;
    const uint8_t* name = layout.at(step.head) + skipped;
    p = copy_padded(p, name, has_before ? head : head + kEmptyString);
    Has has = first.next(i, step.extent, &bytes);
    p = put_string(to, p, Cell{step, named[i], bytes}, has, options);
    if (!p) return undecodable(row, i, error);
    if (kind == RowKind::remove) {
      p = copy_padded(p, name + head, kEmptyString);
    } else if (two) {
      has = second.next(i, step.extent, &bytes);
      p = put_string(to, p, Cell{step, named[i], bytes}, has, options);
      if (!p) return undecodable(row, i, error);
    }
  }
  store(out.at(count_at), count);
  out.p = p;
  return true;
}

bool put_poll(Output& out, int version, const Row& row, uint32_t queue_size, const RenderOptions& options,
              std::string* error) {
  switch (row.kind) {
    case RowKind::insert: return put_poll_of<RowKind::insert>(out, version, row, queue_size, options, error);
    case RowKind::update: return put_poll_of<RowKind::update>(out, version, row, queue_size, options, error);
    default: return put_poll_of<RowKind::remove>(out, version, row, queue_size, options, error);
  }
}

// Writes the NULL bitmap of one side, over the columns of the payload: those that either side holds. A column that this
// side leaves out counts as NULL.
void put_nulls(Output& out, const Row& row, bool after) {
  const Definition& d = *row.definition;
  bool two = row.kind == RowKind::update;
  const uint8_t* present = after && two ? row.after_present : row.before_present;
  const uint8_t* other = two && !after ? row.after_present : row.before_present;
  const uint8_t* nulls = (after && two ? row.after : row.before).data;
  size_t total = d.columns.size();
  size_t at = 0, columns = 0;
  uint8_t byte = 0;
  out.ensure(bytes_for(total));
  if (all_bits(present, total, true)) {  // the usual case: the row's own bitmap, but for the bits after the last column
    out.p = copy_exact(out.p, nulls, bytes_for(total));
    if (total & 7) out.p[-1] &= static_cast<uint8_t>((1u << (total & 7)) - 1);
    return;
  }
  for (size_t i = 0; i < total; ++i) {
    bool here = bit(present, i);
    if (!here && !bit(other, i)) continue;
    bool null = !here || bit(nulls, at);
    at += here;
    byte = static_cast<uint8_t>(byte | null << (columns & 7));
    if ((++columns & 7) == 0) {
      *out.p++ = byte;
      byte = 0;
    }
  }
  if (columns & 7) *out.p++ = byte;
}

using PutValue = uint8_t* (*)(const Target&, uint8_t*, const Cell&, const RenderOptions&);

template <PutValue put_value>
bool put_map(Output& out, const Row& row, const uint8_t* present, Bytes bytes, const RenderOptions& options,
             std::string* error) {
  const Definition& d = *row.definition;
  const Layout& layout = *d.layout;
  Image image(d, present, bytes);
  if (image.broken()) return cut_short(row, error);
  Target to{out, room_for(row, options)};
  out.ensure(to.row_room);
  uint8_t* p = msgpack::put_head32(out.p, kMap32, image.columns());
  for (size_t i = 0; i < layout.steps.size(); ++i) {
    const Step& step = layout.steps[i];
    Bytes value;
    Has has = image.next(i, step.extent, &value);
    if (has == Has::nothing) continue;
    if (has == Has::broken) return undecodable(row, i, error);
    p = copy_padded(p, layout.at(step.key), step.key.size);
    if (has == Has::null) {
      *p++ = kNil;
    } else {
      p = put_value(to, p, Cell{step, d.columns[i], value}, options);
      if (!p) return undecodable(row, i, error);
    }
  }
  out.p = p;
  return true;
}

// Writes the two sides of a row as maps, nil where its kind has none.
template <PutValue put_value>
bool put_sides(Output& out, const Row& row, const RenderOptions& options, std::string* error) {
  out.ensure(2);
  if (row.kind == RowKind::insert) *out.p++ = kNil;
  if (!put_map<put_value>(out, row, row.before_present, row.before, options, error)) return false;
  if (row.kind == RowKind::update && !put_map<put_value>(out, row, row.after_present, row.after, options, error))
    return false;
  out.ensure(1);
  if (row.kind == RowKind::remove) *out.p++ = kNil;
  return true;
}

template <PutValue put_value>
bool append_many(std::string& out, uint64_t sequence, const Row& row, const RenderOptions& options,
                 std::string* error) {
  Output& written = scratch();
  const Layout& layout = *row.definition->layout;
  written.ensure(layout.row_room);
  uint8_t* p = msgpack::put_array(written.p, 8);
  p = msgpack::put_u64(p, sequence);
  p = msgpack::put_small(p, static_cast<unsigned>(row.kind));
  p = msgpack::put_u64(p, row.position);
  written.p = copy_padded(p, layout.at(layout.packed_front), layout.packed_front.size);
  if (!put_sides<put_value>(written, row, options, error)) return false;
  out.append(written.chars(), written.size());
  return true;
}

template <PutValue put_value>
bool append_both(std::string& out, const Row& row, const RenderOptions& options, std::string* error) {
  Output& written = scratch();
  written.ensure(1);
  written.p = msgpack::put_array(written.p, 2);
  if (!put_sides<put_value>(written, row, options, error)) return false;
  out.append(written.chars(), written.size());
  return true;
}

}  // namespace

bool append_poll(std::string& out, int version, const Row& row, uint32_t queue_size, const RenderOptions& options,
                 std::string* error) {
  Output& written = scratch();
  if (!put_poll(written, version, row, queue_size, options, error)) return false;
  out.append(written.chars(), written.size());
  return true;
}

bool append_many_text(std::string& out, uint64_t sequence, const Row& row, uint32_t queue_size,
                      const RenderOptions& options, std::string* error) {
  Output& written = scratch();
  written.ensure(sizeof sequence);
  store(written.p, sequence);
  written.p += sizeof sequence;
  if (!put_poll(written, 2, row, queue_size, options, error)) return false;
  if (row.kind != RowKind::insert) put_nulls(written, row, false);
  if (row.kind != RowKind::remove) put_nulls(written, row, true);
  out.append(written.chars(), written.size());
  return true;
}

bool append_many_msgpack(std::string& out, uint64_t sequence, const Row& row, const RenderOptions& options,
                         std::string* error) {
  return append_many<put_typed>(out, sequence, row, options, error);
}

bool append_many_extended(std::string& out, uint64_t sequence, const Row& row, const RenderOptions& options,
                          std::string* error) {
  return append_many<put_extended>(out, sequence, row, options, error);
}

bool append_sides(std::string& out, const Row& row, ValueForm form, const RenderOptions& options, std::string* error) {
  switch (form) {
    case ValueForm::text: return append_both<put_spelled>(out, row, options, error);
    case ValueForm::typed: return append_both<put_typed>(out, row, options, error);
    default: return append_both<put_extended>(out, row, options, error);
  }
}

}  // namespace relay
