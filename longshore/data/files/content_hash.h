// A hash that tells whether bytes are still what they were: XXH3 of 128 bits
// (https://github.com/Cyan4973/xxHash), which is as fast as memory. It is no defence against
// intent.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "longshore/base/file_descriptor.h"

namespace longshore::data {

// 32 hexadecimal digits, the same that `xxhsum -H2` prints.
std::string content_hash(std::span<const std::byte> bytes);
std::string content_hash(std::string_view text);

// A hash of how many bytes there are and of parts of them, all over, of which the first is their
// beginning: for files that are too large to be read for that.
std::string sampled_hash(std::span<const std::byte> bytes);

// content_hash() of bytes that come one after another.
class ContentHash {
 public:
  ContentHash();
  ~ContentHash();

  void append(std::span<const std::byte> bytes);
  std::array<uint64_t, 2> words() const;  // the high ones first
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The hash of a whole file. Throws a DataError that names the path when it cannot be opened.
std::string file_hash(const std::filesystem::path& path);
// Of one that is open for reading, from where it stands to its end; messages call it `path`. Adds
// the bytes to `bytes_read` as they are read.
std::string file_hash(const FileDescriptor& file, const std::filesystem::path& path,
                      std::atomic<int64_t>* bytes_read = nullptr);

}  // namespace longshore::data
