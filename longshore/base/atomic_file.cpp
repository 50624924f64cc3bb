#include "longshore/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "longshore/base/error.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/partial_name.h"
#include "longshore/base/printable.h"

namespace longshore {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr int64_t kAheadBytes = int64_t{8} << 20;

// What a link leads to, which need not be there yet, or the path itself.
std::filesystem::path target_of(const std::filesystem::path& path) {
  constexpr int kMostLinks = 40;  // as Linux has it
  std::filesystem::path target = path;
  std::error_code error;
  for (int links = 0; std::filesystem::is_symlink(target, error); ++links) {
    if (links == kMostLinks)
      throw FileError(path_text(path) +
                      ": found a link that leads to no end, expected the name of a "
                      "file to write");
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
    if (error) throw FileError(path_text(path) + ": cannot follow the link: " + error.message());
  }
  return target;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, Links links)
    : path_(links == Links::followed ? target_of(path) : std::move(path)) {
  // It takes the name's place when it is whole, which nobody wants of a device.
  const int flags = links == Links::followed ? 0 : AT_SYMLINK_NOFOLLOW;
  if (struct stat status;
      fstatat(AT_FDCWD, path_.c_str(), &status, flags) == 0 && !S_ISREG(status.st_mode))
    throw FileError(path_text(path_) + ": found " + kind_of_file(status.st_mode) +
                    ", expected the name of a file to write");
  PartialFile partial = make_partial_file(path_);
  temporary_path_ = std::move(partial.path);
  file_ = std::move(partial.descriptor);
  buffer_.reserve(kBufferBytes);
}

AtomicFile::~AtomicFile() {
  if (file_.is_open()) unlink(temporary_path_.c_str());
}

void AtomicFile::fail(std::string_view what) const {
  const std::string reason = std::strerror(errno);
  throw FileError(path_text(temporary_path_) + ": " + std::string(what) + ": " + reason);
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes)
    write_out(bytes);
  else
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void AtomicFile::append(std::string_view text) {
  append(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::overwrite_start(std::span<const std::byte> bytes) {
  flush();
  if (pwrite(file_.number(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    fail("cannot write");
}

void AtomicFile::flush() {
  write_out(buffer_);
  buffer_.clear();
}

void AtomicFile::write_out(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file_.number(), bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("cannot write");
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    written_ += written;
  }
  // The system starts writing to the disk now, so that finish() has little to wait for.
  if (written_ - on_their_way_ < kAheadBytes) return;
  sync_file_range(file_.number(), on_their_way_, written_ - on_their_way_, SYNC_FILE_RANGE_WRITE);
  on_their_way_ = written_;
}

void AtomicFile::finish() {
  flush();
  if (fsync(file_.number()) != 0) fail("cannot sync");
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0)
    fail("cannot rename to " + path_text(path_));
  file_.close();
  sync_folder(path_.parent_path());
}

void write_file(const std::filesystem::path& path, std::string_view contents, Links links) {
  AtomicFile file(path, links);
  file.append(contents);
  file.finish();
}

void sync_folder(const std::filesystem::path& folder) {
  const FileDescriptor directory(
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.is_open()) fsync(directory.number());
}

void require_no_input(const std::filesystem::path& output,
                      std::span<const std::filesystem::path> inputs) {
  for (const std::filesystem::path& input : inputs)
    if (std::error_code error; std::filesystem::equivalent(input, output, error))
      throw ConfigError(path_text(output) + ": found " + path_text(input) +
                        ", which is an input; expected another file to write");
}

}  // namespace longshore
