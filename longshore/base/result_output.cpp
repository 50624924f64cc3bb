#include "longshore/base/result_output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"

namespace longshore {
namespace {

[[noreturn]] void fail() {
  throw FileError(std::string("standard output: cannot be written: ") + std::strerror(errno));
}

}  // namespace

ResultOutput::ResultOutput(std::filesystem::path path) : path_(std::move(path)) {
  if (path_ != "-") return;
  std::fflush(stdout);
  standard_output_ = dup(STDOUT_FILENO);
  if (standard_output_ < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) fail();
}

void ResultOutput::write(const std::string& text) const {
  if (!is_wanted()) return;
  if (is_file()) return write_file(path_, text);
  for (size_t written = 0; written < text.size();) {
    const ssize_t bytes = ::write(standard_output_, text.data() + written, text.size() - written);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) fail();
    written += static_cast<size_t>(bytes);
  }
}

}  // namespace longshore
