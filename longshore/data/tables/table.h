// A Table is a file of columns, of which one part after another is read.
#pragma once

#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::data {

struct Table {
  std::vector<std::string> columns;  // all there are
  // The next rows, of the columns that are wanted; nullptr behind the last.
  std::function<std::shared_ptr<arrow::RecordBatch>()> next;
};

// Which columns to read, by name. All are, where none of them is there.
using Wants = std::function<bool(const std::string& column)>;

// Of Parquet. The bytes and the memory must outlive what is returned. These throw an ArrowFault, or
// what Arrow's libraries throw, on a file that is damaged, and std::bad_alloc where it asks for
// more than the memory has.
Table open_parquet(std::string_view bytes, const Wants& wants, arrow::MemoryPool& memory);
// Of Arrow's file and stream formats.
Table open_arrow(std::string_view bytes, const Wants& wants, arrow::MemoryPool& memory);

// What Arrow's libraries say of a file.
struct ArrowFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(const arrow::Status& status) {
  if (status.IsOutOfMemory()) throw std::bad_alloc();
  if (!status.ok()) throw ArrowFault(status.message());
}

template <typename T>
T check(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

}  // namespace longshore::data
