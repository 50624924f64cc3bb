#include "longshore/data/files/content_hash.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/file_descriptor.h"
#include "longshore/base/printable.h"

namespace longshore::data {
namespace {

std::string digits(XXH128_hash_t hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

}  // namespace

std::string content_hash(std::span<const std::byte> bytes) {
  return digits(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string content_hash(std::string_view text) {
  return content_hash(std::as_bytes(std::span(text)));
}

std::string sampled_hash(std::span<const std::byte> bytes) {
  constexpr size_t kParts = 64, kPartBytes = size_t{64} << 10;
  std::string hashes = std::to_string(bytes.size());
  const size_t stride = std::max(kPartBytes, bytes.size() / kParts);
  for (size_t first = 0; first < bytes.size(); first += stride)
    hashes += " " + content_hash(bytes.subspan(first, std::min(kPartBytes, bytes.size() - first)));
  return content_hash(hashes);
}

struct ContentHash::State {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> xxh3{XXH3_createState(),
                                                                      XXH3_freeState};
};

ContentHash::ContentHash() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(state_->xxh3.get());
}

ContentHash::~ContentHash() = default;

void ContentHash::append(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh3.get(), bytes.data(), bytes.size());
}

std::array<uint64_t, 2> ContentHash::words() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh3.get());
  return {hash.high64, hash.low64};
}

std::string ContentHash::text() const { return digits(XXH3_128bits_digest(state_->xxh3.get())); }

std::string file_hash(const std::filesystem::path& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) throw DataError(path_text(path) + ": cannot open: " + std::strerror(errno));
  return file_hash(file, path);
}

// Read, not mapped: a file that is cut off meanwhile, or a disk that fails, must not end the
// process by a signal.
std::string file_hash(const FileDescriptor& file, const std::filesystem::path& path,
                      std::atomic<int64_t>* bytes_read) {
  constexpr size_t kPieceBytes = size_t{256} << 10;  // few calls of read, and still in the cache
  posix_fadvise(file.number(), 0, 0, POSIX_FADV_SEQUENTIAL);
  ContentHash hash;
  std::vector<std::byte> piece(kPieceBytes);
  ssize_t count = 0;
  do {
    count = read(file.number(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) hash.append(std::span(piece).first(static_cast<size_t>(count)));
    if (count > 0 && bytes_read) *bytes_read += count;
  } while (count > 0 || (count < 0 && errno == EINTR));
  if (count < 0) throw DataError(path_text(path) + ": cannot read: " + std::strerror(errno));
  return hash.text();
}

}  // namespace longshore::data
