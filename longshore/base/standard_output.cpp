#include "longshore/base/standard_output.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "longshore/base/error.h"

namespace longshore {
namespace {

// The errno of the first write that failed; 0 as long as none did.
std::atomic<int> first_failure = 0;

void note_failure() {
  int none = 0;
  first_failure.compare_exchange_strong(none, errno);
}

// As after head(1), or after tee(1) that got the same signal as this program.
bool has_lost_reader() {
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP));
}

}  // namespace

void put_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) note_failure();
}

void flush_output() {
  if (std::fflush(stdout) != 0) note_failure();
}

void require_output() {
  if (first_failure != 0)
    throw FileError(std::string("standard output: cannot be written: ") +
                    std::strerror(first_failure));
}

void finish_output() {
  flush_output();
  if (!has_lost_reader()) require_output();
}

}  // namespace longshore
