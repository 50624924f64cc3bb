// A LateNotice prints a line on stderr for what takes longer than a second, so that nobody takes it
// for a hang.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "longshore/base/patient_output.h"

namespace longshore {

// Prints the line, once, unless its scope ends before, or no thread is to be had for it.
class LateNotice {
 public:
  explicit LateNotice(std::string line,
                      std::chrono::milliseconds patience = std::chrono::seconds(1)) {
    auto print_late = [line = std::move(line), patience](const std::stop_token& stop) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any never;
      never.wait_for(lock, stop, patience, [] { return false; });
      if (!stop.stop_requested()) print_error(line + "\n");
    };
    try {
      thread_ = std::jthread(std::move(print_late));
    } catch (const std::system_error&) {
    }
  }

 private:
  std::jthread thread_;
};

}  // namespace longshore
