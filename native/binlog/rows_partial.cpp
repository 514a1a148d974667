// Completing of partial updates.
#include "binlog/rows_partial.hpp"

#include "binlog/json_patch.hpp"
#include "values/image.hpp"

namespace relay {

namespace {

constexpr uint64_t kPartialJson = 1;  // the only option of values
constexpr uint32_t kJsonPrefix = 4;

class Completer {
 public:
  Completer(const Definition& definition, const RowsBody& body, const std::vector<bool>& keep, std::string* out)
      : definition_(definition), body_(body), keep_(keep), out_(out), total_(definition.columns.size()) {
    for (const Column& column : definition.columns) json_columns_ += column.type == kJson;
    columns_after_ = count_bits(body.after, total_);
  }

  Completed rows() {
    Reader in(body_.images);
    while (in.left()) {
      const uint8_t* start = in.at();
      const uint8_t* middle = skip_image(definition_, body_.before, start, body_.images.end());
      if (!middle) return Completed::malformed;
      Bytes before(start, static_cast<size_t>(middle - start));
      out_->append(before.text());
      in.skip(before.size);
      Completed after = row_after(in, before);
      if (after != Completed::yes) return after;
    }
    return Completed::yes;
  }

 private:
  // Layout: options of the row's values; which JSON columns of the table hold changes; NULLs; values.
  Completed row_after(Reader& in, Bytes image_before) {
    uint64_t options = in.lenenc();
    if (!in.ok() || options & ~kPartialJson) return Completed::malformed;
    Bytes partial = in.take(options ? bytes_for(json_columns_) : 0);
    Bytes nulls = in.take(bytes_for(columns_after_));
    if (!in.ok()) return Completed::malformed;
    out_->append(nulls.text());
    Image before(definition_, body_.before, image_before);
    size_t json = 0, at = 0;
    for (size_t i = 0; i < total_; ++i) {
      bool is_json = definition_.columns[i].type == kJson;
      bool changed = is_json && partial.size && bit(partial.data, json);
      json += is_json;
      Bytes value_before;
      Has has = before.next(i, definition_.extents[i], &value_before);
      if (!bit(body_.after, i) || bit(nulls.data, at++)) continue;
      Completed done = changed ? changed_value(in, i, has, value_before) : whole_value(in, i);
      if (done != Completed::yes) return done;
    }
    return Completed::yes;
  }

  Completed whole_value(Reader& in, size_t i) {
    const uint8_t* end = skip_value(definition_.columns[i], in.at(), body_.images.end());
    if (!end) return Completed::malformed;
    out_->append(in.take(static_cast<size_t>(end - in.at())).text());
    return Completed::yes;
  }

  Completed changed_value(Reader& in, size_t i, Has has, Bytes before) {
    Bytes changes = in.take(in.u32());
    if (!in.ok() || definition_.extents[i].prefix != kJsonPrefix) return Completed::malformed;
    size_t start = out_->size();
    out_->append(kJsonPrefix, '\0');
    if (!keep_.empty() && !keep_[i]) return Completed::yes;
    if (has == Has::nothing) return Completed::lacking;
    if (has != Has::value || !patch_json(before, changes, out_)) return Completed::malformed;
    store(&(*out_)[start], static_cast<uint32_t>(out_->size() - start - kJsonPrefix));
    return Completed::yes;
  }

  const Definition& definition_;
  const RowsBody& body_;
  const std::vector<bool>& keep_;
  std::string* out_;
  size_t total_;
  size_t json_columns_ = 0;
  size_t columns_after_ = 0;
};

}  // namespace

Completed complete_rows(const Definition& definition, Bytes body, const std::vector<bool>& keep, std::string* out) {
  RowsBody parsed;
  if (!RowsBody::parse(body, RowKind::update, &parsed) || parsed.columns != definition.columns.size())
    return Completed::malformed;
  out->append(body.text().substr(0, body.size - parsed.images.size));
  return Completer(definition, parsed, keep, out).rows();
}

}  // namespace relay
