#include <arrow/io/memory.h>
#include <arrow/type.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <algorithm>
#include <limits>

#include "longshore/data/tables/table.h"

namespace longshore::data {
namespace {

// Of values that are unpacked at a time, by what the file says of their sizes.
constexpr int64_t kBatchBytes = int64_t{16} << 20;
constexpr int64_t kMostRows = 256;

std::unique_ptr<parquet::arrow::FileReader> open_reader(std::string_view bytes,
                                                        arrow::MemoryPool& memory) {
  auto file = parquet::ParquetFileReader::Open(
      std::make_shared<arrow::io::BufferReader>(std::make_shared<arrow::Buffer>(bytes)),
      parquet::ReaderProperties(&memory));
  // No threads: the caller has its own.
  parquet::ArrowReaderProperties settings(/*use_threads=*/false);
  settings.set_pre_buffer(false);
  return check(parquet::arrow::FileReader::Make(&memory, std::move(file), settings));
}

// Goes through the file's row groups, which are independent of each other.
class ParquetRows {
 public:
  ParquetRows(std::string_view bytes, const Wants& wants, arrow::MemoryPool& memory)
      : file_(open_reader(bytes, memory)) {
    const parquet::SchemaDescriptor& schema = *metadata().schema();
    for (int leaf = 0; leaf < schema.num_columns(); ++leaf)
      if (wants(schema.GetColumnRoot(leaf)->name())) leaves_.push_back(leaf);
    if (!leaves_.empty()) return;
    for (int leaf = 0; leaf < schema.num_columns(); ++leaf) leaves_.push_back(leaf);
  }

  std::vector<std::string> columns() const {
    std::shared_ptr<arrow::Schema> schema;
    check(file_->GetSchema(&schema));
    return schema->field_names();
  }

  std::shared_ptr<arrow::RecordBatch> next() {
    while (true) {
      std::shared_ptr<arrow::RecordBatch> batch;
      if (rows_) check(rows_->ReadNext(&batch));
      if (batch) return batch;
      if (rows_) ++group_;
      rows_.reset();
      if (group_ == metadata().num_row_groups()) return nullptr;
      file_->set_batch_size(rows_at_a_time());
      rows_ = check(file_->GetRecordBatchReader({group_}, leaves_));
    }
  }

 private:
  const parquet::FileMetaData& metadata() const { return *file_->parquet_reader()->metadata(); }

  int64_t rows_at_a_time() const {
    const auto group = metadata().RowGroup(group_);
    double bytes = 0;  // of which a file may say anything
    for (const int leaf : leaves_)
      bytes += static_cast<double>(group->ColumnChunk(leaf)->total_uncompressed_size());
    const double rows = static_cast<double>(group->num_rows());
    if (!(bytes > 0) || !(rows > 0)) return kMostRows;
    const double fitting = std::clamp(kBatchBytes * rows / bytes, 1.0, double{kMostRows});
    return static_cast<int64_t>(fitting);
  }

  std::unique_ptr<parquet::arrow::FileReader> file_;
  std::vector<int> leaves_;  // columns that have no columns in them
  int group_ = 0;
  std::unique_ptr<arrow::RecordBatchReader> rows_;  // of the group
};

}  // namespace

Table open_parquet(std::string_view bytes, const Wants& wants, arrow::MemoryPool& memory) {
  const auto rows = std::make_shared<ParquetRows>(bytes, wants, memory);
  return {rows->columns(), [rows] { return rows->next(); }};
}

}  // namespace longshore::data
