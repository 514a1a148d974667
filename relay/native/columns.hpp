// Rows of one table definition as columns in Arrow's memory layout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "payload.hpp"
#include "values.hpp"

struct ArrowArray;
struct ArrowSchema;

namespace relay {

// One column. Its memory grows by doubling.
struct Lane {
  enum class Shape : uint8_t {
    fixed,     // `values` has `width` bytes a row
    variable,  // `values` has where in `data` each row begins, and where the last one ends
    list,      // `values` has where in `items` each row begins, and where the last one ends; `items` has so in `data`
    sparse,    // as variable, but mostly NULL: written as far as row `filled`
  };

  Shape shape = Shape::fixed;
  uint32_t width = 0;
  Lane* text = nullptr;  // where values that the type cannot hold stand as text
  Output values;
  Output data;
  Output items;
  size_t filled = 0;
  std::vector<uint8_t> valid;  // a bit for each row; none as long as nothing is NULL
  bool nullable = true;
  std::string name;
  std::string format;  // of the C data interface
  const char* item_format = "u";
};

// Flat rows: an insert or a delete is one, an update two, its images before and after.
//
// Columns: _sequence uint64; _change_type utf8 (insert, update_preimage, update_postimage, delete); _position uint64;
// the table's; and for each DATE, DATETIME and TIMESTAMP among these <name>__text utf8, which is NULL unless the value
// is a date that no calendar has: then the column is NULL. What a partial image leaves out is NULL.
class ColumnBatch {
 public:
  enum class Added : uint8_t { yes, full, undecodable };

  explicit ColumnBatch(std::shared_ptr<const Definition> definition);

  // Adds a row of a definition with the same columns, or nothing: because the batch would outgrow offsets of 31 bits,
  // or because a value cannot be decoded. Says why in `error`.
  Added add(const Row& row, uint64_t sequence, std::string* error);
  // Keeps the first flat rows only.
  void cut(size_t rows);

  const Definition& definition() const { return *definition_; }
  size_t rows() const { return rows_; }
  // An upper bound of the bytes of the batch as an Arrow IPC stream.
  size_t stream_bytes() const { return fixed_bytes_ + rows_ * row_bits_ / 8 + variable_; }

  // Fills in both structures. Nothing is added any more; the batch lives until they are released.
  static void give(const std::shared_ptr<ColumnBatch>& batch, ArrowSchema* schema, ArrowArray* array);

 private:
  void make_lane(size_t at, std::string name, std::string format, Lane::Shape shape, uint32_t width);
  void reserve(size_t rows);
  bool put_image(const Row& row, bool after, uint64_t sequence, std::string* error);
  bool put_value(Lane& lane, const Step& step, const Column& column, Bytes bytes);
  template <typename T, typename Convert>
  bool put_moment(Lane& lane, const Step& step, const Column& column, Bytes bytes, Convert convert);
  bool put_as_text(Lane& lane, const Cell& cell);
  bool put_labels(Lane& lane, const Column& column, uint64_t bits);
  bool put_number(Lane& lane, __int128 number);
  void put_null(Lane& lane);
  void end_variable(Lane& lane, size_t row);
  void fill(Lane& lane, size_t rows);
  void seal();

  template <typename T>
  bool put_fixed(Lane& lane, T value) {
    store(lane.values.at(rows_ * sizeof value), value);
    return true;
  }

  std::shared_ptr<const Definition> definition_;
  std::vector<Lane> lanes_;
  size_t rows_ = 0;
  size_t capacity_ = 0;
  size_t variable_ = 0;     // bytes in `data` and `items` of all lanes
  size_t row_bits_ = 0;     // of a row in all lanes but these
  size_t fixed_bytes_ = 0;  // of a stream: schema, headers, padding
};

// Rows as they come, in a batch for each definition, in the order of their first rows.
class ColumnBatches {
 public:
  // Adds a row with its definition, as ColumnBatch does.
  ColumnBatch::Added add(const std::shared_ptr<const Definition>& definition, const Row& row, uint64_t sequence,
                         std::string* error);
  // Takes back the row that was added last.
  void undo();
  size_t stream_bytes() const { return stream_bytes_; }
  std::vector<std::shared_ptr<ColumnBatch>> take();

 private:
  struct Known {
    std::shared_ptr<const Definition> definition;  // held, so that its address stays its own
    size_t batch;
  };
  size_t batch_of(const std::shared_ptr<const Definition>& definition);

  std::vector<std::shared_ptr<ColumnBatch>> batches_;
  std::vector<Known> known_;
  size_t last_ = 0;       // the batch of the row added last,
  size_t last_rows_ = 0;  // and how many flat rows it had before
  size_t stream_bytes_ = 0;
};

}  // namespace relay
