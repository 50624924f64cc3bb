#include "longshore/data/rows/read_rows.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace longshore::data {

void read_rows(int64_t rows, int64_t threads, const std::function<void(int64_t row)>& read) {
  std::atomic<int64_t> next = 0;
  std::atomic<int64_t> failed = rows;  // the first row that did
  std::exception_ptr failure;
  std::mutex mutex;
  auto work = [&] {
    for (int64_t row; (row = next++) < failed;) {
      try {
        read(row);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (row >= failed) continue;
        failed = row;
        failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (int64_t i = 1; i < std::min(threads, rows); ++i) others.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace longshore::data
