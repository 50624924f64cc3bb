// parallel_for() does independent work on all processors that the process may use.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "longshore/base/processors.h"

namespace longshore {

// work(0) to work(count - 1), each once, on several threads. What one of them throws first is
// thrown here, when all threads have stopped; what had not begun by then is left out.
template <class Work>
void parallel_for(size_t count, const Work& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  auto run = [&] {
    for (size_t i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
  };
  std::vector<std::jthread> threads;
  const auto most = static_cast<size_t>(usable_processors());
  try {
    while (threads.size() + 1 < std::min(count, most)) threads.emplace_back(run);
  } catch (const std::system_error&) {
    // Those that there are do it.
  }
  run();
  threads.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

}  // namespace longshore
