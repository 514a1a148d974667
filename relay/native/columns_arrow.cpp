// Columns by the Arrow C data interface, and batches of several tables.
#include "arrow_abi.hpp"
#include "columns_form.hpp"

namespace relay {

namespace {

// What a structure that was given away holds until it is released.
struct SchemaHold {
  std::string name, format, metadata;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;
  std::unique_ptr<ArrowSchema> dictionary;
};

struct ArrayHold {
  std::shared_ptr<ColumnBatch> batch;
  std::vector<const void*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> pointers;
  std::unique_ptr<ArrowArray> dictionary;
};

template <typename Structure, typename Hold>
void release(Structure* structure) {
  auto* hold = static_cast<Hold*>(structure->private_data);
  for (Structure& child : hold->children) {
    if (child.release) child.release(&child);
  }
  if (hold->dictionary && hold->dictionary->release) hold->dictionary->release(hold->dictionary.get());
  structure->release = nullptr;
  delete hold;
}

template <typename Structure, typename Hold>
void adopt(Structure* structure, Hold* hold) {
  for (Structure& child : hold->children) hold->pointers.push_back(&child);
  structure->n_children = static_cast<int64_t>(hold->children.size());
  structure->children = hold->pointers.data();
  structure->dictionary = hold->dictionary.get();
  structure->private_data = hold;
  structure->release = release<Structure, Hold>;
}

ArrowSchema schema_of(std::string name, std::string format, std::string metadata, bool nullable,
                      std::vector<ArrowSchema> children, std::unique_ptr<ArrowSchema> dictionary = nullptr) {
  auto* hold = new SchemaHold{std::move(name),     std::move(format), std::move(metadata),
                              std::move(children), {},                std::move(dictionary)};
  ArrowSchema schema = {};
  schema.format = hold->format.c_str();
  schema.name = hold->name.c_str();
  schema.metadata = hold->metadata.empty() ? nullptr : hold->metadata.data();
  schema.flags = nullable ? ARROW_FLAG_NULLABLE : 0;
  adopt(&schema, hold);
  return schema;
}

ArrowArray array_of(const std::shared_ptr<ColumnBatch>& batch, size_t length, bool nulls,
                    std::vector<const void*> buffers, std::vector<ArrowArray> children,
                    std::unique_ptr<ArrowArray> dictionary = nullptr) {
  auto* hold = new ArrayHold{batch, std::move(buffers), std::move(children), {}, std::move(dictionary)};
  ArrowArray array = {};
  array.length = static_cast<int64_t>(length);
  array.null_count = nulls ? -1 : 0;
  array.n_buffers = static_cast<int64_t>(hold->buffers.size());
  array.buffers = hold->buffers.data();
  adopt(&array, hold);
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
  for (Lane& lane : batch->lanes_) {
    bool nulls = !lane.valid.empty();
    std::vector<const void*> buffers = {nulls ? lane.valid.data() : nullptr, lane.values.at(0)};
    std::vector<ArrowSchema> item;
    std::vector<ArrowArray> items;
    std::unique_ptr<ArrowSchema> text;
    std::unique_ptr<ArrowArray> texts;
    auto give_items = [&] {
      return array_of(batch, count_items(lane), false, {nullptr, lane.items.at(0), lane.data.at(0)}, {});
    };
    if (lane.shape == Lane::Shape::list) {
      item.push_back(schema_of("item", lane.item_format, "", true, {}));
      items.push_back(give_items());
    } else if (lane.shape == Lane::Shape::coded) {
      text = std::make_unique<ArrowSchema>(schema_of("", lane.item_format, "", true, {}));
      texts = std::make_unique<ArrowArray>(give_items());
    } else if (has_offsets(lane.shape)) {
      buffers.push_back(lane.data.at(0));
    }
    fields.push_back(schema_of(lane.name, lane.format, "", lane.nullable, std::move(item), std::move(text)));
    arrays.push_back(
        array_of(batch, batch->rows_, nulls, std::move(buffers), std::move(items), std::move(texts)));
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
