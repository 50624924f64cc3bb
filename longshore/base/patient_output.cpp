#include "longshore/base/patient_output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "longshore/base/before_printing.h"
#include "longshore/base/print.h"
#include "longshore/base/text.h"

namespace longshore {
namespace {

enum class Room { some, none, no_reader };

// For a pipe: room for a page at least, which write() then takes without waiting.
Room room(int descriptor, std::chrono::milliseconds patience) {
  pollfd output{.fd = descriptor, .events = POLLOUT, .revents = 0};
  if (poll(&output, 1, static_cast<int>(patience.count())) <= 0) return Room::none;
  return output.revents == POLLOUT ? Room::some : Room::no_reader;
}

// How much of the text was written; all of it where there is no reader any more.
size_t write_page(int descriptor, std::string_view text, std::chrono::milliseconds patience = {}) {
  constexpr size_t kPage = 4096;
  switch (room(descriptor, patience)) {
    case Room::none:
      return 0;
    case Room::no_reader:
      return text.size();
    case Room::some:
      break;
  }
  const ssize_t count = write(descriptor, text.data(), std::min(text.size(), kPage));
  if (count >= 0) return static_cast<size_t>(count);
  return errno == EINTR || errno == EAGAIN ? 0 : text.size();
}

}  // namespace

void print_error(std::string_view text, std::chrono::milliseconds patience) {
  prepare_to_print();
  const std::string lines = shown(text);
  for (size_t written = 0; written < lines.size();) {
    const size_t count =
        write_page(STDERR_FILENO, std::string_view(lines).substr(written), patience);
    if (count == 0) return;
    written += count;
  }
}

void PatientOutput::put(std::string text) {
  waiting_bytes_ += text.size();
  waiting_.push_back(std::move(text));
  while (write_some()) {
  }
  const auto oldest = [&] { return waiting_.begin() + (written_ > 0 ? 1 : 0); };
  while (waiting_bytes_ > kMostWaitingBytes && oldest() + 1 < waiting_.end()) {
    waiting_bytes_ -= oldest()->size();
    waiting_.erase(oldest());
    ++left_out_;
  }
}

size_t PatientOutput::finish(const std::function<std::chrono::milliseconds()>& patience) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kBetween{20};
  for (auto since = Clock::now(); waits();) {
    if (write_some())
      since = Clock::now();
    else if (Clock::now() - since >= patience())
      break;
    else
      std::this_thread::sleep_for(kBetween);
  }
  return waiting_.size() + static_cast<size_t>(left_out_);
}

// Whether the reader took anything.
bool PatientOutput::write_some() {
  if (!waits()) return false;
  if (written_ == 0 && left_out_ > 0) {
    const std::string gap = "(" + plural(left_out_, "line") + " left out: nobody read)\n";
    if (write_page(descriptor_, gap) == 0) return false;
    left_out_ = 0;
  }
  const std::string& first = waiting_.front();
  const size_t count = write_page(descriptor_, std::string_view(first).substr(written_));
  written_ += count;
  if (written_ < first.size()) return count > 0;
  waiting_bytes_ -= first.size();
  waiting_.pop_front();
  written_ = 0;
  return true;
}

}  // namespace longshore
