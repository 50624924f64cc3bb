#include "data/file_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file_descriptor.h"

namespace longshore::data {

FileMapping::FileMapping(const std::filesystem::path& path, Access access) {
  // Without O_NONBLOCK a named pipe would hang here.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  auto fail = [&](const std::string& what) {
    throw DataError(path.string() + ": " + what + ": " + std::strerror(errno));
  };
  if (!file.is_open()) fail("cannot open");
  struct stat status;
  if (fstat(file.number(), &status) != 0) fail("cannot look at it");
  if (!S_ISREG(status.st_mode))
    throw DataError(path.string() + ": expected a regular file, found " +
                    (S_ISDIR(status.st_mode) ? "a folder" : "something else"));
  const auto size = static_cast<size_t>(status.st_size);
  if (size > 0) {
    void* mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
    if (mapped == MAP_FAILED) fail("cannot map");
    if (access == Access::from_front_to_back) madvise(mapped, size, MADV_SEQUENTIAL);
    bytes_ = {static_cast<const std::byte*>(mapped), size};
  }
}

FileMapping::~FileMapping() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

FileMapping::FileMapping(FileMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

std::string_view FileMapping::text() const {
  return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
}

}  // namespace longshore::data
