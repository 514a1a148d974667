// Walks over the rows of an event.
#include "values/rows.hpp"

#include "base/bitmap.hpp"

namespace relay {

namespace {

void put_lenenc(std::string* out, uint64_t v) {
  char bytes[3] = {static_cast<char>(v), static_cast<char>(v >> 8), 0};
  if (v < 0xfb) {
    out->append(bytes, 1);
  } else {  // a table has at most 4096 columns
    out->push_back(static_cast<char>(0xfc));
    out->append(bytes, 2);
  }
}

void set_bit(std::string* bits, size_t i) { (*bits)[i >> 3] = static_cast<char>((*bits)[i >> 3] | 1 << (i & 7)); }

std::string kept_bits(const uint8_t* present, const std::vector<bool>& keep, size_t kept) {
  std::string bits(bytes_for(kept), '\0');
  size_t to = 0;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) continue;
    if (bit(present, i)) set_bit(&bits, to);
    ++to;
  }
  return bits;
}

// Appends the image at p without the dropped columns. Returns the byte after the image, or nullptr.
const uint8_t* copy_image(const Definition& definition, const uint8_t* present, const std::vector<bool>& keep,
                          const uint8_t* p, const uint8_t* end, std::string* out) {
  size_t total = definition.extents.size();
  size_t nulls_size = bytes_for(count_bits(present, total));
  if (nulls_size > static_cast<size_t>(end - p)) return nullptr;
  const uint8_t* nulls = p;
  p += nulls_size;
  size_t kept = 0;
  for (size_t i = 0; i < total; ++i) kept += keep[i] && bit(present, i);
  std::string kept_nulls(bytes_for(kept), '\0');
  size_t nulls_at = out->size();
  out->append(kept_nulls);
  size_t from = 0, to = 0;
  for (size_t i = 0; i < total; ++i) {
    if (!bit(present, i)) continue;
    bool null = bit(nulls, from++);
    const uint8_t* next = null ? p : skip_extent(definition.extents[i], p, end);
    if (!next) return nullptr;
    if (keep[i]) {
      if (null) set_bit(&kept_nulls, to);
      ++to;
      out->append(reinterpret_cast<const char*>(p), static_cast<size_t>(next - p));
    }
    p = next;
  }
  out->replace(nulls_at, kept_nulls.size(), kept_nulls);
  return p;
}

}  // namespace

bool RowsBody::parse(Bytes body, RowKind kind, RowsBody* out) {
  Reader in(body);
  uint64_t columns = in.lenenc();
  if (!in.ok() || columns > in.left() * 8) return false;
  size_t bitmap = bytes_for(columns);
  RowsBody parsed;
  parsed.columns = static_cast<uint32_t>(columns);
  parsed.before = in.take(bitmap).data;
  if (kind == RowKind::update) parsed.after = in.take(bitmap).data;
  if (!in.ok()) return false;
  parsed.images = in.rest();
  parsed.full = all_bits(parsed.before, columns, true) && (!parsed.after || all_bits(parsed.after, columns, true));
  *out = parsed;
  return true;
}

const uint8_t* skip_value(const Column& column, const uint8_t* p, const uint8_t* end) {
  Extent e;
  return extent_of(column, &e) ? skip_extent(e, p, end) : nullptr;
}

Images::Images(const Definition& definition, const uint8_t* present)
    : extents_(&definition.extents), runs_(&definition.runs), present_(present) {
  const size_t total = extents_->size();
  full_ = all_bits(present, total, true);
  columns_ = full_ ? total : count_bits(present, total);
  nulls_ = bytes_for(columns_);
  if (columns_ <= 64) mask_ = columns_ == 64 ? ~uint64_t{0} : (uint64_t{1} << columns_) - 1;
}

const uint8_t* Images::skip_each(const uint8_t* nulls, const uint8_t* end) const {
  const uint8_t* p = nulls + nulls_;
  size_t at = 0;
  for (size_t i = 0; i < extents_->size(); ++i) {
    if (!full_ && !bit(present_, i)) continue;
    if (bit(nulls, at++)) continue;
    p = skip_extent((*extents_)[i], p, end);
    if (!p) return nullptr;
  }
  return p;
}

const uint8_t* skip_image(const Definition& definition, const uint8_t* present, const uint8_t* p, const uint8_t* end) {
  return Images(definition, present).skip(p, end);
}

Walk walk_rows(const Definition& definition, const RowsBody& body) {
  Walk walk;
  if (body.columns != definition.columns.size()) return walk;
  const RowSizes sizes(definition, body);
  const uint8_t* p = body.images.data;
  const uint8_t* end = body.images.end();
  // Minimal images of rows that are all defaults: no byte says how many rows there are.
  if (sizes.empty()) {
    walk.rows = 1;
    walk.ok = p == end;
    return walk;
  }
  for (const uint8_t* middle; p != end; ++walk.rows) {
    if (!sizes.measure(p, end, &middle, &p)) return walk;
  }
  walk.ok = true;
  return walk;
}

bool copy_without(const Definition& definition, RowKind kind, const RowsBody& body, const std::vector<bool>& keep,
                  std::string* out) {
  if (body.columns != definition.columns.size() || keep.size() != definition.columns.size()) return false;
  size_t kept = 0;
  for (bool k : keep) kept += k;
  std::string copy;
  copy.reserve(body.images.size + 16);
  put_lenenc(&copy, kept);
  copy += kept_bits(body.before, keep, kept);
  if (kind == RowKind::update) copy += kept_bits(body.after, keep, kept);
  const uint8_t* p = body.images.data;
  const uint8_t* end = body.images.end();
  while (p != end) {
    const uint8_t* row = p;
    p = copy_image(definition, body.before, keep, p, end, &copy);
    if (p && kind == RowKind::update) p = copy_image(definition, body.after, keep, p, end, &copy);
    if (!p || p == row) return false;
  }
  *out += copy;
  return true;
}

}  // namespace relay
