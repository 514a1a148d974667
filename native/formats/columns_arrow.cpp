// Exports columns through the Arrow C data interface, and manages batches of several tables.
#include "formats/arrow_abi.hpp"
#include "formats/columns_form.hpp"

namespace relay {

namespace {

// What an exported structure owns until it is released.
struct SchemaOwner {
  std::string name, format, metadata;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;
  std::unique_ptr<ArrowSchema> dictionary;
};

struct ArrayOwner {
  std::shared_ptr<ColumnBatch> batch;
  std::vector<const void*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> pointers;
  std::unique_ptr<ArrowArray> dictionary;
};

template <typename Structure, typename Owner>
void release(Structure* structure) {
  auto* owner = static_cast<Owner*>(structure->private_data);
  for (Structure& child : owner->children) {
    if (child.release) child.release(&child);
  }
  if (owner->dictionary && owner->dictionary->release) owner->dictionary->release(owner->dictionary.get());
  structure->release = nullptr;
  delete owner;
}

template <typename Structure, typename Owner>
void adopt(Structure* structure, Owner* owner) {
  for (Structure& child : owner->children) owner->pointers.push_back(&child);
  structure->n_children = static_cast<int64_t>(owner->children.size());
  structure->children = owner->pointers.data();
  structure->dictionary = owner->dictionary.get();
  structure->private_data = owner;
  structure->release = release<Structure, Owner>;
}

ArrowSchema schema_of(std::string name, std::string format, std::string metadata, bool nullable,
                      std::vector<ArrowSchema> children, std::unique_ptr<ArrowSchema> dictionary = nullptr) {
  auto* owner = new SchemaOwner{std::move(name),      std::move(format), std::move(metadata), std::move(children), {},
                                std::move(dictionary)};
  ArrowSchema schema = {};
  schema.format = owner->format.c_str();
  schema.name = owner->name.c_str();
  schema.metadata = owner->metadata.empty() ? nullptr : owner->metadata.data();
  schema.flags = nullable ? ARROW_FLAG_NULLABLE : 0;
  adopt(&schema, owner);
  return schema;
}

ArrowArray array_of(const std::shared_ptr<ColumnBatch>& batch, size_t length, bool nulls,
                    std::vector<const void*> buffers, std::vector<ArrowArray> children,
                    std::unique_ptr<ArrowArray> dictionary = nullptr) {
  auto* owner = new ArrayOwner{batch, std::move(buffers), std::move(children), {}, std::move(dictionary)};
  ArrowArray array = {};
  array.length = static_cast<int64_t>(length);
  array.null_count = nulls ? -1 : 0;
  array.n_buffers = static_cast<int64_t>(owner->buffers.size());
  array.buffers = owner->buffers.data();
  adopt(&array, owner);
  return array;
}

void add_counted(std::string* out, const std::string& text) {
  auto n = static_cast<int32_t>(text.size());
  out->append(reinterpret_cast<const char*>(&n), sizeof n);
  *out += text;
}

std::string metadata_of(const Definition& d) {
  const std::string pairs[][2] = {{"schema", d.schema}, {"table", d.table}, {"instance", std::to_string(d.version)}};
  int32_t n = std::size(pairs);
  std::string out(reinterpret_cast<const char*>(&n), sizeof n);
  for (const auto& [key, value] : pairs) {
    add_counted(&out, key);
    add_counted(&out, value);
  }
  return out;
}

bool same_column(const Column& a, const Column& b) {
  return a.name == b.name && a.type == b.type && a.meta == b.meta && a.is_unsigned == b.is_unsigned &&
         a.charset == b.charset && a.labels == b.labels && a.sql_type == b.sql_type;
}

}  // namespace

bool same_columns(const Definition& a, const Definition& b) {
  return a.version == b.version && a.schema == b.schema && a.table == b.table && a.proven == b.proven &&
         std::equal(a.columns.begin(), a.columns.end(), b.columns.begin(), b.columns.end(), same_column);
}

void ColumnBatch::give(const std::shared_ptr<ColumnBatch>& batch, ArrowSchema* schema, ArrowArray* array) {
  batch->seal();
  std::vector<ArrowSchema> fields;
  std::vector<ArrowArray> arrays;
  for (ColumnBuffer& buffer : batch->column_buffers_) {
    bool nulls = !buffer.valid.empty();
    std::vector<const void*> buffers = {nulls ? buffer.valid.data() : nullptr, buffer.values.at(0)};
    std::vector<ArrowSchema> item;
    std::vector<ArrowArray> items;
    std::unique_ptr<ArrowSchema> text;
    std::unique_ptr<ArrowArray> texts;
    auto give_items = [&] {
      return array_of(batch, count_items(buffer), false, {nullptr, buffer.items.at(0), buffer.data.at(0)}, {});
    };
    if (buffer.shape == ColumnBuffer::Shape::list) {
      item.push_back(schema_of("item", buffer.item_format, "", true, {}));
      items.push_back(give_items());
    } else if (buffer.shape == ColumnBuffer::Shape::coded) {
      text = std::make_unique<ArrowSchema>(schema_of("", buffer.item_format, "", true, {}));
      texts = std::make_unique<ArrowArray>(give_items());
    } else if (has_offsets(buffer.shape)) {
      buffers.push_back(buffer.data.at(0));
    }
    fields.push_back(schema_of(buffer.name, buffer.format, "", buffer.nullable, std::move(item), std::move(text)));
    arrays.push_back(array_of(batch, batch->rows_, nulls, std::move(buffers), std::move(items), std::move(texts)));
  }
  *schema = schema_of("", "+s", metadata_of(*batch->definition_), false, std::move(fields));
  *array = array_of(batch, batch->rows_, false, {nullptr}, std::move(arrays));
}

size_t ColumnBatches::batch_of(const std::shared_ptr<const Definition>& definition) {
  for (const Known& known : known_) {
    if (known.definition == definition) return known.batch;
  }
  size_t batch = 0;
  while (batch < batches_.size() && !same_columns(batches_[batch]->definition(), *definition)) ++batch;
  if (batch == batches_.size()) {
    batches_.push_back(std::make_shared<ColumnBatch>(definition));
    stream_bytes_ += batches_.back()->stream_bytes();
  }
  known_.push_back({definition, batch});
  return batch;
}

ColumnBatch::Added ColumnBatches::add(const std::shared_ptr<const Definition>& definition, const Row& row,
                                      uint64_t sequence, std::string* error) {
  last_ = batch_of(definition);
  ColumnBatch& batch = *batches_[last_];
  last_rows_ = batch.rows();
  size_t before = batch.stream_bytes();
  ColumnBatch::Added added = batch.add(row, sequence, error);
  stream_bytes_ += batch.stream_bytes() - before;
  return added;
}

void ColumnBatches::undo() {
  ColumnBatch& batch = *batches_[last_];
  stream_bytes_ -= batch.stream_bytes();
  batch.cut(last_rows_);
  stream_bytes_ += batch.stream_bytes();
}

std::vector<std::shared_ptr<ColumnBatch>> ColumnBatches::take() {
  std::vector<std::shared_ptr<ColumnBatch>> taken;
  for (std::shared_ptr<ColumnBatch>& batch : batches_) {
    if (batch->rows() > 0) taken.push_back(std::move(batch));
  }
  *this = ColumnBatches();
  return taken;
}

}  // namespace relay
