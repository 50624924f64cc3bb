#include <arrow/array.h>
#include <arrow/type.h>

#include <algorithm>
#include <set>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/tables/json_value.h"
#include "longshore/data/tables/table.h"
#include "longshore/data/text/table_library.h"

namespace longshore::data {
namespace {

// Of what is unpacked. A file may ask for anything, and sound ones ask for far less.
constexpr int64_t kMostMemory = int64_t{1} << 30;

class TableReader final : public RecordReader {
 public:
  explicit TableReader(const TableFile& file)
      : name_(file.name),
        format_(file.is_parquet ? "Parquet" : "Arrow"),
        own_memory_(arrow::system_memory_pool()),
        memory_(&own_memory_, kMostMemory) {
    auto wants = [&](const std::string& column) {
      return !file.columns || std::ranges::find(*file.columns, column) != file.columns->end();
    };
    guarded([&] {
      table_ = (file.is_parquet ? open_parquet : open_arrow)(file.bytes, wants, memory_);
    });
    check_columns();
  }

  bool next(std::string& record) override {
    while (!batch_ || row_ == batch_->num_rows())
      if (!next_batch()) return false;
    ++number_;
    record = "{";
    for (size_t i = 0; i < table_.columns.size(); ++i) {
      if (i > 0) record += ',';
      append_value(i, record);
    }
    record += '}';
    ++row_;
    return true;
  }

  int64_t line_number() const override { return number_; }

 private:
  void check_columns() const {
    if (table_.columns.empty()) fail("found no columns");
    std::set<std::string> names;
    for (const std::string& column : table_.columns)
      if (!names.insert(column).second)
        fail("found the column " + in_quotes(column) + " again, expected each name once");
  }

  bool next_batch() {
    row_ = 0;
    guarded([&] { batch_ = table_.next(); });
    if (!batch_) return false;
    values_.clear();
    for (const std::string& column : table_.columns) {
      values_.push_back(nullptr);
      const int at = batch_->schema()->GetFieldIndex(column);
      if (at < 0) continue;
      values_.back() = batch_->column(at);
      // Of a damaged file lengths and offsets may lead anywhere.
      guarded([&] { check(values_.back()->ValidateFull()); }, column);
      if (values_.back()->length() != batch_->num_rows())
        fail("is damaged: found " + std::to_string(values_.back()->length()) +
             " values, expected one for each of " + std::to_string(batch_->num_rows()) + " rows");
    }
    return true;
  }

  void append_value(size_t column, std::string& record) const {
    try {
      append_json_string(table_.columns[column], record);
      record += ':';
      if (values_[column])
        append_json(*values_[column], row_, record);
      else
        record += "null";
    } catch (const DataError& error) {
      throw DataError(name_ + ":" + std::to_string(number_) + ": column " +
                      in_quotes(table_.columns[column]) + ": " + error.what());
    }
  }

  // Runs what Arrow's libraries may refuse.
  template <typename Run>
  void guarded(Run run, const std::string& column = "") const {
    try {
      run();
    } catch (const std::bad_alloc&) {
      fail("needs more than " + std::to_string(kMostMemory >> 20) +
           " MiB of memory to be unpacked; nearest: smaller record batches or row groups, or "
           "values");
    } catch (const std::exception& error) {
      const std::string of_column = column.empty() ? "" : "column " + in_quotes(column) + ": ";
      fail(of_column + "is damaged, or not " + format_ + "'s: " + library_message(error.what()));
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    const std::string rows = number_ > 0 ? "behind row " + std::to_string(number_) + ": " : "";
    throw DataError(name_ + ": " + rows + what);
  }

  std::string name_;
  const char* format_;
  arrow::ProxyMemoryPool own_memory_;  // which counts this file's alone
  arrow::CappedMemoryPool memory_;
  Table table_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  // Of the batch, one for each of the table's columns, nullptr where it is not read.
  std::vector<std::shared_ptr<arrow::Array>> values_;
  int64_t row_ = 0;     // of the batch, the next one
  int64_t number_ = 0;  // in the file
};

}  // namespace
}  // namespace longshore::data

extern "C" __attribute__((visibility("default"))) longshore::data::RecordReader*
longshore_open_table(const longshore::data::TableFile& file) {
  return new longshore::data::TableReader(file);
}
