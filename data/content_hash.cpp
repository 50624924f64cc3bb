#include "data/content_hash.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"

namespace longshore::data {
namespace {

std::string text(XXH128_hash_t hash) {
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return digits;
}

}  // namespace

std::string content_hash(std::span<const std::byte> bytes) {
  return text(XXH3_128bits(bytes.data(), bytes.size()));
}

// Read, not mapped: a file that is cut off meanwhile, or a disk that fails, must not end the
// process by a signal.
std::string file_hash(const std::filesystem::path& path) {
  constexpr size_t kPiece = size_t{4} << 20;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) throw DataError(path.string() + ": cannot open: " + std::strerror(errno));
  posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<std::byte> piece(kPiece);
  ssize_t count = 0;
  do {
    count = read(file, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) XXH3_128bits_update(state.get(), piece.data(), static_cast<size_t>(count));
  } while (count > 0 || (count < 0 && errno == EINTR));
  const std::string reason = std::strerror(errno);
  close(file);
  if (count < 0) throw DataError(path.string() + ": cannot read: " + reason);
  return text(XXH3_128bits_digest(state.get()));
}

}  // namespace longshore::data
