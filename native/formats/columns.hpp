// Rows of one table definition as columns in Arrow's memory layout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/block.hpp"
#include "formats/column_buffer.hpp"
#include "values/image.hpp"
#include "values/payload.hpp"
#include "values/values.hpp"

struct ArrowArray;
struct ArrowSchema;

namespace relay {

// Which columns a batch has and how it writes some types: those of PollMany, or those of the lake's files.
enum class Form : uint8_t { stream, lake, lake_binary_json };

// The transaction of the rows.
struct Origin {
  uint64_t version = 0;   // number of its last change
  int64_t timestamp = 0;  // Unix seconds
  std::string_view file;
  std::string_view gtid;  // empty: none
};

// A batch of flat rows: one for an insert or a delete, two for an update, its images before and after. Change types are
// insert, update_preimage, update_postimage, delete.
//
// Columns of Form::stream: _sequence uint64; _change_type utf8; _position uint64; the table's; and for each DATE,
// DATETIME and TIMESTAMP among these <name>__text utf8. If the value is a date that no calendar has, this text is the
// value and the column is NULL; otherwise the text is NULL. Columns that a partial image lacks are NULL.
//
// Columns of the other forms: the table's; the same texts, and in the same order <name>__raw binary for each text,
// which is NULL unless its bytes are not valid text in its character set (the column then has question marks), and
// <name>__srid int32 for each geometry; and _change_type, _commit_version int64, _commit_timestamp timestamp[us, UTC],
// _seq int64, _file, _pos int64, _gtid. ENUMs, _change_type, _file and _gtid are dictionaries of texts; BIT(1) is
// boolean, and a geometry is WKB.
class ColumnBatch {
 public:
  enum class Added : uint8_t { yes, full, undecodable };

  explicit ColumnBatch(std::shared_ptr<const Definition> definition, Form form = Form::stream);

  // Sets the transaction of the following rows. Not for Form::stream.
  void begin(const Origin& origin);

  // Adds a row of a definition with the same columns. Adds nothing if the batch would outgrow offsets of 31 bits or if
  // a value cannot be decoded; says why in `error`.
  Added add(const Row& row, uint64_t sequence, std::string* error);
  // So many more flat rows come, but no more than until the batch takes `most_bytes` of a stream. The batch then makes
  // room for all of them at once, as soon as it has enough rows to know their size. Not for Form::stream.
  void expect(size_t rows, size_t most_bytes) {
    expected_ = rows;
    most_bytes_ = most_bytes;
  }
  // Keeps only the first flat rows.
  void cut(size_t rows);

  // Takes the memory of a batch with the same columns that nobody uses any more. Not after a row was added.
  void take_memory(ColumnBatch* spare);
  // Bytes of memory for values.
  size_t room() const;

  const Definition& definition() const { return *definition_; }
  size_t rows() const { return rows_; }
  // An upper bound of the batch's size as an Arrow IPC stream.
  size_t stream_bytes() const { return fixed_bytes_ + rows_ * row_bits_ / 8 + variable_; }

  // Names of the side columns that have a value.
  std::vector<std::string> sides() const;
  // Fills in both structures. Nothing may be added after that. The batch lives until both are released.
  static void give(const std::shared_ptr<ColumnBatch>& batch, ArrowSchema* schema, ArrowArray* array);

 private:
  // Defined in columns_form.cpp.
  void make_buffer(size_t at, std::string name, std::string format, ColumnBuffer::Shape shape, uint32_t width);
  void make_own(size_t at, const Step& step, const Column& column);
  void make_labels(size_t at, const Column& column, const char* format);
  void make_leading();
  void make_trailing();
  int32_t code_of(ColumnBuffer& buffer, std::string_view text);

  static size_t values_size(const ColumnBuffer& buffer, size_t rows);
  void make_room();
  void reserve(size_t rows);
  void reserve_ahead(size_t rows);
  bool put_image(const Row& row, bool after, uint64_t sequence, std::string* error);
  template <bool whole>
  bool put_columns(Image* image, std::string* error);
  void put_leading(const Row& row, bool after, uint64_t sequence);
  void put_trailing(const Row& row, bool after, uint64_t sequence);
  bool put_value(ColumnBuffer& buffer, const Step& step, const Column& column, Bytes bytes);
  template <typename T, typename Convert>
  bool put_moment(ColumnBuffer& buffer, const Step& step, const Column& column, Bytes bytes, Convert convert);
  bool put_bytes(ColumnBuffer& buffer, Bytes bytes);
  bool put_as_text(ColumnBuffer& buffer, const Cell& cell);
  bool put_utf8(ColumnBuffer& buffer, Bytes bytes);
  bool put_mended(ColumnBuffer& buffer, Bytes bytes);
  bool put_converted(ColumnBuffer& buffer, const Column& column, Bytes bytes);
  bool put_compressed(ColumnBuffer& buffer, const Step& step, const Column& column, Bytes bytes);
  bool put_raw(ColumnBuffer& buffer, Bytes bytes);
  bool put_geometry(ColumnBuffer& buffer, Bytes bytes);
  bool put_bit(ColumnBuffer& buffer, bool value);
  bool put_label(ColumnBuffer& buffer, uint64_t number);
  void begin_sparse(ColumnBuffer& buffer);
  bool put_labels(ColumnBuffer& buffer, const Column& column, uint64_t bits);
  bool put_number(ColumnBuffer& buffer, __int128 number);
  void put_null(ColumnBuffer& buffer);
  void end_variable(ColumnBuffer& buffer, size_t row);
  void fill(ColumnBuffer& buffer, size_t rows);
  void seal();

  template <typename T>
  bool put_fixed(ColumnBuffer& buffer, T value) {
    uint8_t* const at = buffer.values.at(rows_ * sizeof value);
    store(at, value);
    prefetch(at);
    return true;
  }

  std::shared_ptr<const Definition> definition_;
  Form form_;
  std::vector<ColumnBuffer> column_buffers_;
  std::shared_ptr<Block> block_;  // of their memory, if it is large
  size_t own_ = 0;                // the table's first column
  size_t sides_ = 0;              // the first side column
  size_t meta_ = 0;               // the first of the columns that are common to all tables
  Origin origin_;                 // except its texts:
  int32_t file_ = 0;
  int32_t gtid_ = -1;  // none
  size_t rows_ = 0;
  size_t capacity_ = 0;
  size_t expected_ = 0;
  size_t most_bytes_ = 0;
  size_t variable_ = 0;     // bytes in `data` and `items` of all columns
  size_t row_bits_ = 0;     // bits per row in all other memory
  size_t fixed_bytes_ = 0;  // of a stream: schema, headers, padding
};

// Whether rows of both can share a batch.
bool same_columns(const Definition& a, const Definition& b);

// Rows in order of arrival, in one batch per definition; batches are in the order of their first rows.
class ColumnBatches {
 public:
  // Adds a row with its definition; see ColumnBatch.
  ColumnBatch::Added add(const std::shared_ptr<const Definition>& definition, const Row& row, uint64_t sequence,
                         std::string* error);
  // Removes the last added row.
  void undo();
  size_t stream_bytes() const { return stream_bytes_; }
  std::vector<std::shared_ptr<ColumnBatch>> take();

 private:
  struct Known {
    std::shared_ptr<const Definition> definition;  // keeps the address in use
    size_t batch;
  };
  size_t batch_of(const std::shared_ptr<const Definition>& definition);

  std::vector<std::shared_ptr<ColumnBatch>> batches_;
  std::vector<Known> known_;
  size_t last_ = 0;       // the batch of the last added row,
  size_t last_rows_ = 0;  // and its number of flat rows before
  size_t stream_bytes_ = 0;
};

}  // namespace relay
