// Writers of reply payloads.
#include "values/payload.hpp"

#include "base/msgpack.hpp"
#include "values/bounded.hpp"
#include "values/image.hpp"

namespace relay {

namespace {

constexpr size_t kStringHead = 4;  // u32 length + 1
constexpr size_t kEmptyString = 5;
constexpr size_t kNameId = 4;  // before a name in PollV2 only
size_t room_for(const Row& row, const RenderOptions& options) {
  const Layout& layout = *row.definition->layout;
  return layout.row_room + row.before.size + row.after.size + 2 * layout.steps.size() * options.null_text.size();
}

// Fills in the head of a classic protocol string whose text ends at `end`, and its last byte.
inline uint8_t* end_string(uint8_t* start, uint8_t* end) {
  store(start, static_cast<uint32_t>(end - start - kStringHead + 1));
  *end = 0;
  return end + 1;
}

// Writes column i as a classic protocol string, of any kind.
uint8_t* put_any(const Target& to, uint8_t* p, const Row& row, size_t i, Bytes bytes, const RenderOptions& options) {
  const Definition& d = *row.definition;
  const size_t start = to.out.offset(p);
  uint8_t* end = put_text(to, p + kStringHead, Cell{d.layout->steps[i], d.columns[i], bytes}, options);
  return end ? end_string(to.out.at(start), end) : nullptr;
}

// Writes the next column of an image as a classic protocol string. A column that the image leaves out is empty. Returns
// nullptr if the value is invalid.
uint8_t* put_string(const Target& to, uint8_t* p, const Row& row, size_t i, Image* image,
                    const RenderOptions& options) {
  const Step& step = row.definition->layout->steps[i];
  Bytes bytes;
  uint8_t* const text = p + kStringHead;
  switch (image->next(i, step.extent, &bytes)) {
    case Has::nothing: return end_string(p, text);
    case Has::null: return end_string(p, put_chars(text, options.null_text));
    case Has::broken: return nullptr;
    case Has::value: return put_any(to, p, row, i, bytes, options);
  }
  return nullptr;
}

// The same for an image with all columns and no NULL.
[[gnu::always_inline]] inline uint8_t* put_next(const Target& to, uint8_t* p, const Row& row, const Step& step,
                                                size_t i, Place* place, const RenderOptions& options) {
  Bytes bytes;
  if (!place->take(step.extent, &bytes)) return nullptr;
  uint8_t* end = put_bounded(p + kStringHead, step, row.definition->columns.data()[i], bytes, options);
  return end ? end_string(p, end) : put_any(to, p, row, i, bytes, options);
}

// Writes the columns of a payload, but for their number, which is counted. One instance per row kind, and for whole
// images: what they lack takes no time, and the rest stays in registers.
template <RowKind kind, bool whole>
bool put_columns(const Target& to, const Row& row, Image* first, Image* second, size_t skipped,
                 const RenderOptions& options, uint32_t* count, std::string* error) {
  constexpr bool two = kind == RowKind::update, has_before = kind != RowKind::insert;
  const Layout& layout = *row.definition->layout;
  const Step* const steps = layout.steps.data();
  const uint8_t* const names = layout.at({}) + skipped;
  const size_t columns = layout.steps.size();
  Place places[2] = {first->place(), second->place()};
  uint8_t* p = to.out.p;
  *count = static_cast<uint32_t>(columns);
  for (size_t i = 0; i < columns; ++i) {
    if (!whole && !first->holds(i) && !(two && second->holds(i))) {
      --*count;
      continue;
    }
    const Step& step = steps[i];
    const size_t head = step.head.size - skipped;
    const uint8_t* name = names + step.head.at;
    p = copy_padded(p, name, has_before ? head : head + kEmptyString);
    p = whole ? put_next(to, p, row, step, i, &places[0], options) : put_string(to, p, row, i, first, options);
    if (!p) return undecodable(*row.definition, i, error);
    if (kind == RowKind::remove) {
      p = copy_padded(p, name + head, kEmptyString);
    } else if (two) {
      p = whole ? put_next(to, p, row, step, i, &places[1], options) : put_string(to, p, row, i, second, options);
      if (!p) return undecodable(*row.definition, i, error);
    }
  }
  to.out.p = p;
  return true;
}

// Writes the NULL bitmap of one side, over the columns of the payload: those that either side holds. A column that this
// side leaves out counts as NULL.
uint8_t* put_nulls(uint8_t* p, size_t total, const Image& side, const Image* other) {
  if (side.full()) {  // the usual case: the row's own bitmap, but for the bits after the last column
    p = copy_exact(p, side.nulls(), bytes_for(total));
    if (total & 7) p[-1] &= static_cast<uint8_t>((1u << (total & 7)) - 1);
    return p;
  }
  size_t at = 0, columns = 0;
  uint8_t byte = 0;
  for (size_t i = 0; i < total; ++i) {
    bool here = side.holds(i);
    if (!here && !(other && other->holds(i))) continue;
    bool null = !here || bit(side.nulls(), at);
    at += here;
    byte = static_cast<uint8_t>(byte | null << (columns & 7));
    if ((++columns & 7) == 0) {
      *p++ = byte;
      byte = 0;
    }
  }
  if (columns & 7) *p++ = byte;
  return p;
}

// Writes a Poll or PollV2 payload; or, with a sequence, a row of PollMany.
template <RowKind kind>
bool put_poll_of(Output& out, int version, const uint64_t* sequence, const Row& row, uint32_t queue_size,
                 const RenderOptions& options, std::string* error) {
  constexpr bool two = kind == RowKind::update;
  const Layout& layout = *row.definition->layout;
  const size_t total = layout.steps.size();
  Image first(*row.definition, row.before_present, row.before);
  Image second;
  if (two) second = Image(*row.definition, row.after_present, row.after);
  if (first.broken() || second.broken()) return cut_short(*row.definition, error);
  const Span front = version == 1 ? layout.front1 : layout.front2;
  const Target to{out, room_for(row, options)};
  out.ensure(to.row_room);
  uint8_t* p = out.p;
  if (sequence) {
    store(p, *sequence);
    p += sizeof *sequence;
  }
  *p = static_cast<uint8_t>(kind);
  store(p + 1, row.position);
  store(p + 9, queue_size);
  out.p = copy_padded(p + 13, layout.at(front), front.size);
  const size_t count_at = out.size() - sizeof(uint32_t);
  uint32_t count = 0;
  const bool whole = first.whole() && (!two || second.whole());
  const auto put = whole ? put_columns<kind, true> : put_columns<kind, false>;
  if (!put(to, row, &first, &second, version == 1 ? kNameId : 0, options, &count, error)) return false;
  store(out.at(count_at), count);
  if (!sequence) return true;
  out.p = put_nulls(out.p, total, first, two ? &second : nullptr);
  if (two) out.p = put_nulls(out.p, total, second, &first);
  return true;
}

// Nothing is written if it returns false.
bool put_poll(Output& out, int version, const uint64_t* sequence, const Row& row, uint32_t queue_size,
              const RenderOptions& options, std::string* error) {
  const size_t start = out.size();
  bool done;
  switch (row.kind) {
    case RowKind::insert:
      done = put_poll_of<RowKind::insert>(out, version, sequence, row, queue_size, options, error);
      break;
    case RowKind::update:
      done = put_poll_of<RowKind::update>(out, version, sequence, row, queue_size, options, error);
      break;
    default: done = put_poll_of<RowKind::remove>(out, version, sequence, row, queue_size, options, error);
  }
  if (!done) out.p = out.at(start);
  return done;
}

using PutValue = uint8_t* (*)(const Target&, uint8_t*, const Cell&, const RenderOptions&);

// Writes the pairs of a map at `out.p`, which has room for the row. Instances as those of put_columns.
template <PutValue put_value, bool whole>
bool put_pairs(const Target& to, uint8_t* p, const Row& row, Image* image, const RenderOptions& options,
               std::string* error) {
  const Definition& d = *row.definition;
  const Layout& layout = *d.layout;
  const Step* const steps = layout.steps.data();
  const uint8_t* const names = layout.at({});
  const size_t columns = layout.steps.size();
  Place place = image->place();
  for (size_t i = 0; i < columns; ++i) {
    const Step& step = steps[i];
    Bytes value;
    Has has = Has::value;
    if (!whole) {
      has = image->next(i, step.extent, &value);
    } else if (!place.take(step.extent, &value)) {
      has = Has::broken;
    }
    if (has == Has::nothing) continue;
    if (has == Has::broken) return undecodable(*row.definition, i, error);
    p = copy_padded(p, names + step.key.at, step.key.size);
    if (has == Has::null) {
      *p++ = msgpack::kNil;
    } else {
      p = put_value(to, p, Cell{step, d.columns[i], value}, options);
      if (!p) return undecodable(*row.definition, i, error);
    }
  }
  to.out.p = p;
  return true;
}

template <PutValue put_value>
bool put_map(Output& out, const Row& row, const uint8_t* present, Bytes bytes, const RenderOptions& options,
             std::string* error) {
  Image image(*row.definition, present, bytes);
  if (image.broken()) return cut_short(*row.definition, error);
  const Target to{out, room_for(row, options)};
  out.ensure(to.row_room);
  uint8_t* p = msgpack::put_map(out.p, image.columns());
  const auto put = image.whole() ? put_pairs<put_value, true> : put_pairs<put_value, false>;
  return put(to, p, row, &image, options, error);
}

// Writes the two sides of a row as maps, nil where its kind has none.
template <PutValue put_value>
bool put_sides(Output& out, const Row& row, const RenderOptions& options, std::string* error) {
  out.ensure(2);
  if (row.kind == RowKind::insert) *out.p++ = msgpack::kNil;
  if (!put_map<put_value>(out, row, row.before_present, row.before, options, error)) return false;
  if (row.kind == RowKind::update && !put_map<put_value>(out, row, row.after_present, row.after, options, error))
    return false;
  out.ensure(1);
  if (row.kind == RowKind::remove) *out.p++ = msgpack::kNil;
  return true;
}

// Writes [before, after] after what stands from `start` on. Forgets all of it if it returns false.
template <PutValue put_value>
bool end_with_sides(Output& out, size_t start, const Row& row, const RenderOptions& options, std::string* error) {
  if (put_sides<put_value>(out, row, options, error)) return true;
  out.p = out.at(start);
  return false;
}

template <PutValue put_value>
bool append_many(Output& out, uint64_t sequence, const Row& row, const RenderOptions& options, std::string* error) {
  const Layout& layout = *row.definition->layout;
  const size_t start = out.size();
  out.ensure(layout.row_room);
  uint8_t* p = msgpack::put_array(out.p, 8);
  p = msgpack::put_u64(p, sequence);
  p = msgpack::put_small(p, static_cast<unsigned>(row.kind));
  p = msgpack::put_int(p, row.position);
  out.p = copy_padded(p, layout.at(layout.packed_front), layout.packed_front.size);
  return end_with_sides<put_value>(out, start, row, options, error);
}

template <PutValue put_value>
bool append_both(Output& out, const Row& row, const RenderOptions& options, std::string* error) {
  const size_t start = out.size();
  out.ensure(1);
  out.p = msgpack::put_array(out.p, 2);
  return end_with_sides<put_value>(out, start, row, options, error);
}

}  // namespace

bool append_poll(Output& out, int version, const Row& row, uint32_t queue_size, const RenderOptions& options,
                 std::string* error) {
  return put_poll(out, version, nullptr, row, queue_size, options, error);
}

bool append_many_text(Output& out, uint64_t sequence, const Row& row, uint32_t queue_size, const RenderOptions& options,
                      std::string* error) {
  return put_poll(out, 2, &sequence, row, queue_size, options, error);
}

bool append_many_msgpack(Output& out, uint64_t sequence, const Row& row, const RenderOptions& options,
                         std::string* error) {
  return append_many<put_typed>(out, sequence, row, options, error);
}

bool append_many_extended(Output& out, uint64_t sequence, const Row& row, const RenderOptions& options,
                          std::string* error) {
  return append_many<put_extended>(out, sequence, row, options, error);
}

bool append_sides(Output& out, const Row& row, ValueForm form, const RenderOptions& options, std::string* error) {
  switch (form) {
    case ValueForm::text: return append_both<put_spelled>(out, row, options, error);
    case ValueForm::typed: return append_both<put_typed>(out, row, options, error);
    default: return append_both<put_extended>(out, row, options, error);
  }
}

}  // namespace relay
