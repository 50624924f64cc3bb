#include <arrow/array.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>
#include <arrow/type.h>

#include "longshore/data/tables/table.h"

namespace longshore::data {
namespace {

constexpr std::string_view kFileMark = "ARROW1";

// Values are used where they lie in the file, unless they are packed there.
arrow::ipc::IpcReadOptions options_of(arrow::MemoryPool& memory) {
  arrow::ipc::IpcReadOptions options;
  options.memory_pool = &memory;
  options.use_threads = false;
  options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  return options;
}

std::vector<int> fields_of(const arrow::Schema& schema, const Wants& wants) {
  std::vector<int> fields;
  for (int i = 0; i < schema.num_fields(); ++i)
    if (wants(schema.field(i)->name())) fields.push_back(i);
  return fields;  // none: all
}

// Opens it twice: which columns there are is known before it is said which are read.
template <typename Open>
auto open_columns(Open open, const Wants& wants, arrow::MemoryPool& memory,
                  std::vector<std::string>& columns) {
  arrow::ipc::IpcReadOptions options = options_of(memory);
  const std::shared_ptr<arrow::Schema> schema = check(open(options))->schema();
  columns = schema->field_names();
  options.included_fields = fields_of(*schema, wants);
  return check(open(options));
}

// A row of nothing takes no bytes, so that a few of them could claim rows without end.
void check_rows(const arrow::RecordBatch& batch, size_t file_bytes) {
  if (static_cast<uint64_t>(batch.num_rows()) / 8 > file_bytes)
    throw ArrowFault("found " + std::to_string(batch.num_rows()) + " rows in " +
                     std::to_string(file_bytes) + " bytes");
}

// Arrow takes a stream that is cut between two parts for a whole one, and reads none of what was
// put behind another.
void check_end(std::string_view bytes, int64_t end) {
  const std::string_view mark("\xff\xff\xff\xff\0\0\0\0", 8), old_mark = mark.substr(4);
  const std::string_view read = bytes.substr(0, static_cast<size_t>(end));
  if (!read.ends_with(mark) && !read.ends_with(old_mark))
    throw ArrowFault("found no mark of its end: it was cut off, or is still being written");
  if (read.size() < bytes.size())
    throw ArrowFault("found " + std::to_string(bytes.size() - read.size()) +
                     " bytes behind its end");
}

}  // namespace

Table open_arrow(std::string_view bytes, const Wants& wants, arrow::MemoryPool& memory) {
  const auto buffer = std::make_shared<arrow::Buffer>(bytes);
  Table table;
  if (bytes.starts_with(kFileMark)) {
    auto open = [&](const auto& options) {
      return arrow::ipc::RecordBatchFileReader::Open(
          std::make_shared<arrow::io::BufferReader>(buffer), options);
    };
    const auto reader = open_columns(open, wants, memory, table.columns);
    table.next = [reader, size = bytes.size(), i = 0]() mutable {
      std::shared_ptr<arrow::RecordBatch> batch;
      if (i == reader->num_record_batches()) return batch;
      batch = check(reader->ReadRecordBatch(i++));
      check_rows(*batch, size);
      return batch;
    };
  } else {
    std::shared_ptr<arrow::io::BufferReader> stream;
    auto open = [&](const auto& options) {
      stream = std::make_shared<arrow::io::BufferReader>(buffer);
      return arrow::ipc::RecordBatchStreamReader::Open(stream, options);
    };
    const auto reader = open_columns(open, wants, memory, table.columns);
    table.next = [reader, stream, bytes] {
      std::shared_ptr<arrow::RecordBatch> batch;
      check(reader->ReadNext(&batch));
      if (batch)
        check_rows(*batch, bytes.size());
      else
        check_end(bytes, check(stream->Tell()));
      return batch;
    };
  }
  return table;
}

}  // namespace longshore::data
