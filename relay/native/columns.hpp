// Rows of one table definition as columns in Arrow's memory layout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lane.hpp"
#include "payload.hpp"
#include "values.hpp"

struct ArrowArray;
struct ArrowSchema;

namespace relay {

// Which columns a batch has, and how it writes some types: PollMany's, or those of the lake's files.
enum class Form : uint8_t { stream, lake, lake_binary_json };

// The transaction that rows belong to.
struct Origin {
  uint64_t version = 0;   // number of its last change
  int64_t timestamp = 0;  // Unix seconds
  std::string_view file;
  std::string_view gtid;  // empty: none
};

// Flat rows: an insert or a delete is one, an update two, its images before and after. Change types are insert,
// update_preimage, update_postimage, delete.
//
// Columns of Form::stream: _sequence uint64; _change_type utf8; _position uint64; the table's; and for each DATE,
// DATETIME and TIMESTAMP among these <name>__text utf8, which is NULL unless the value is a date that no calendar has:
// then the column is NULL. What a partial image leaves out is NULL.
//
// Of the others: the table's; these texts, and in the same order <name>__raw binary of each text, which is NULL unless
// its bytes are no text of its character set (what is wrong is a question mark in the column then), and <name>__srid
// int32 of each geometry; and _change_type, _commit_version int64, _commit_timestamp timestamp[us, UTC], _seq int64,
// _file, _pos int64, _gtid. ENUMs, _change_type, _file and _gtid are dictionaries of texts; BIT(1) is boolean, and a
// geometry is WKB.
class ColumnBatch {
 public:
  enum class Added : uint8_t { yes, full, undecodable };

  explicit ColumnBatch(std::shared_ptr<const Definition> definition, Form form = Form::stream);

  // The rows that follow are of this transaction. Not for Form::stream.
  void begin(const Origin& origin);

  // Adds a row of a definition with the same columns, or nothing: because the batch would outgrow offsets of 31 bits,
  // or because a value cannot be decoded. Says why in `error`.
  Added add(const Row& row, uint64_t sequence, std::string* error);
  // Keeps the first flat rows only.
  void cut(size_t rows);

  const Definition& definition() const { return *definition_; }
  size_t rows() const { return rows_; }
  // An upper bound of the bytes of the batch as an Arrow IPC stream.
  size_t stream_bytes() const { return fixed_bytes_ + rows_ * row_bits_ / 8 + variable_; }

  // Names of the side columns that have a value.
  std::vector<std::string> sides() const;
  // Fills in both structures. Nothing is added any more; the batch lives until they are released.
  static void give(const std::shared_ptr<ColumnBatch>& batch, ArrowSchema* schema, ArrowArray* array);

 private:
  // columns_form.cpp
  void make_lane(size_t at, std::string name, std::string format, Lane::Shape shape, uint32_t width);
  void make_own(size_t at, const Step& step, const Column& column);
  void make_labels(size_t at, const Column& column, const char* format);
  void make_leading();
  void make_trailing();
  int32_t code_of(Lane& lane, const std::string& text);

  void reserve(size_t rows);
  bool put_image(const Row& row, bool after, uint64_t sequence, std::string* error);
  void put_leading(const Row& row, bool after, uint64_t sequence);
  void put_trailing(const Row& row, bool after, uint64_t sequence);
  bool put_value(Lane& lane, const Step& step, const Column& column, Bytes bytes);
  template <typename T, typename Convert>
  bool put_moment(Lane& lane, const Step& step, const Column& column, Bytes bytes, Convert convert);
  bool put_bytes(Lane& lane, Bytes bytes);
  bool put_as_text(Lane& lane, const Cell& cell);
  bool put_raw(Lane& lane, const Cell& cell, bool surely);
  bool put_geometry(Lane& lane, Bytes bytes);
  bool put_bit(Lane& lane, bool value);
  bool put_label(Lane& lane, uint64_t number);
  void begin_sparse(Lane& lane);
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
  Form form_;
  std::vector<Lane> lanes_;
  size_t own_ = 0;    // the table's first column
  size_t sides_ = 0;  // the first side column
  size_t meta_ = 0;   // the first of the columns that every table has
  Origin origin_;     // but for its texts:
  int32_t file_ = 0;
  int32_t gtid_ = -1;  // none
  size_t rows_ = 0;
  size_t capacity_ = 0;
  size_t variable_ = 0;     // bytes in `data` and `items` of all lanes
  size_t row_bits_ = 0;     // of a row in all lanes but these
  size_t fixed_bytes_ = 0;  // of a stream: schema, headers, padding
};

// Whether rows of both can stand in one batch.
bool same_columns(const Definition& a, const Definition& b);

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
