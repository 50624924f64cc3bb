#include "longshore/base/spool_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/partial_name.h"
#include "longshore/base/printable.h"

namespace longshore {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

void SpoolFile::append(std::span<const std::byte> bytes) {
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  bytes_ += std::ssize(bytes);
  if (buffer_.size() >= kBufferBytes) flush();
}

void SpoolFile::fail(const char* what) const {
  throw FileError(path_text(path_) + ": cannot " + what +
                  " a file beside it: " + std::strerror(errno));
}

void SpoolFile::flush() {
  if (!writing_.is_open()) {
    PartialFile partial = make_partial_file(path_);
    writing_ = std::move(partial.descriptor);
    reading_ = FileDescriptor(open(partial.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!reading_.is_open()) fail("write");
    unlink(partial.path.c_str());
  }
  for (std::string_view rest = buffer_; !rest.empty();) {
    const ssize_t written = ::write(writing_.number(), rest.data(), rest.size());
    if (written < 0 && errno != EINTR) fail("write");
    rest.remove_prefix(static_cast<size_t>(std::max<ssize_t>(written, 0)));
  }
  buffer_.clear();
}

void SpoolFile::read(const std::function<void(std::span<const std::byte>)>& take) {
  if (bytes_ == 0) return;
  flush();
  std::vector<std::byte> piece(kBufferBytes);
  for (int64_t at = 0; at < bytes_;) {
    const ssize_t read = pread(reading_.number(), piece.data(), piece.size(), at);
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) fail("read");
    take(std::span(piece).first(static_cast<size_t>(read)));
    at += read;
  }
}

}  // namespace longshore
