// A line on stderr for what takes longer than a second, so that nobody takes it for a hang.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "base/print.h"

namespace longshore {

// Prints the line, once, unless its scope ends before.
class LateNotice {
 public:
  explicit LateNotice(std::string line,
                      std::chrono::milliseconds patience = std::chrono::seconds(1))
      : thread_([line = std::move(line), patience](const std::stop_token& stop) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any never;
          never.wait_for(lock, stop, patience, [] { return false; });
          if (!stop.stop_requested()) print(stderr, line + "\n");
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace longshore
