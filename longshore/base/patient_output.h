// A PatientOutput prints for readers that may stand still, as a pager does, or a terminal after
// Ctrl-S: nobody waits for them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace longshore {

// As print() to the standard error, which may have such a reader as well. What that does not take
// within `patience` is left out.
void print_error(std::string_view text, std::chrono::milliseconds patience = {});

// What the reader does not take waits in memory, and is written with what comes later. Of more than
// kMostWaitingBytes the oldest is left out, and how much is said in its place. Once there is no
// reader any more, nothing waits.
class PatientOutput {
 public:
  static constexpr size_t kMostWaitingBytes = size_t{1} << 20;

  explicit PatientOutput(int descriptor) : descriptor_(descriptor) {}

  // A line, or a few.
  void put(std::string text);
  bool waits() const { return !waiting_.empty(); }
  // Writes what waits, until the reader takes nothing for as long as `patience()` says then.
  // Returns how many texts were not written.
  size_t finish(const std::function<std::chrono::milliseconds()>& patience);

 private:
  bool write_some();

  int descriptor_;
  std::deque<std::string> waiting_;
  size_t waiting_bytes_ = 0;
  size_t written_ = 0;    // bytes of the first that waits
  int64_t left_out_ = 0;  // behind the first, if some of it is written
};

}  // namespace longshore
