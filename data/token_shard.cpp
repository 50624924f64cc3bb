#include "data/token_shard.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace longshore::data {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[8] = {'L', 'S', 'T', 'O', 'K', 'E', 'N', 'S'};
constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t bytes_per_token;
  uint64_t token_count;
  uint64_t document_count;
  uint64_t tokenizer_hash;
  uint32_t vocab_size;
  uint32_t zero;
};
static_assert(sizeof(Header) == 48);

// Far beyond any real vocabulary; a corrupt size must not become an allocation.
constexpr uint32_t kMaxVocabSize = 1 << 24;

constexpr size_t kBufferBytes = size_t{1} << 20;

std::string hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

int bytes_for(int32_t vocab_size) { return vocab_size <= 1 << 16 ? 2 : 4; }

// Whether all of the header can be believed; `file_bytes` at least its size.
void check_header(const Header& header, uint64_t file_bytes, const std::string& path) {
  auto refuse = [&](const std::string& found) { throw DataError(path + ": " + found); };
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    refuse("not a token file: it does not begin with \"LSTOKENS\". Make one with tokenize --out.");
  if (header.version != kVersion)
    refuse("token file version " + std::to_string(header.version) + "; expected version " +
           std::to_string(kVersion));
  if (header.bytes_per_token != 2 && header.bytes_per_token != 4)
    refuse("corrupt header: " + std::to_string(header.bytes_per_token) +
           " bytes per token; expected 2 or 4");
  const uint32_t most = header.bytes_per_token == 2 ? 1 << 16 : kMaxVocabSize;
  if (header.vocab_size < 1 || header.vocab_size > most)
    refuse("corrupt header: vocabulary size " + std::to_string(header.vocab_size) +
           "; expected 1 to " + std::to_string(most) + " with " +
           std::to_string(header.bytes_per_token) + " bytes per token");
  const uint64_t payload_bytes = file_bytes - sizeof(Header);
  if (payload_bytes % header.bytes_per_token != 0 ||
      header.token_count != payload_bytes / header.bytes_per_token)
    refuse("truncated or corrupt: the header says " + std::to_string(header.token_count) +
           " tokens of " + std::to_string(header.bytes_per_token) + " bytes, the file holds " +
           std::to_string(payload_bytes) + " bytes of them");
  if (header.document_count > header.token_count)
    refuse("corrupt header: " + std::to_string(header.document_count) + " documents in " +
           std::to_string(header.token_count) + " tokens");
  if (header.zero != 0) refuse("corrupt header: bytes 44 to 47 are not zero");
}

// Copies `count` tokens and gives the largest, read as unsigned: a uint32 beyond int32 is found
// too.
template <typename Stored>
uint32_t copy_tokens(const std::byte* from, int32_t* to, size_t count) {
  const Stored* tokens = reinterpret_cast<const Stored*>(from);
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t token = tokens[i];
    to[i] = static_cast<int32_t>(token);
    largest = largest < token ? token : largest;
  }
  return largest;
}

template <typename Stored>
void store_tokens(std::span<const int32_t> tokens, std::vector<std::byte>& buffer) {
  const size_t old_bytes = buffer.size();
  buffer.resize(old_bytes + tokens.size() * sizeof(Stored));
  Stored* to = reinterpret_cast<Stored*>(buffer.data() + old_bytes);
  for (size_t i = 0; i < tokens.size(); ++i) to[i] = static_cast<Stored>(tokens[i]);
}

}  // namespace

TokenShard::TokenShard(const std::filesystem::path& path) : path_(path) {
  auto fail = [&](int file, const std::string& what) {
    const std::string reason = std::strerror(errno);
    if (file >= 0) close(file);
    throw DataError(path.string() + ": " + what + ": " + reason);
  };
  // Without O_NONBLOCK a named pipe would hang here.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail(file, "cannot open the token file");
  struct stat status;
  if (fstat(file, &status) != 0) fail(file, "cannot look at the token file");
  if (!S_ISREG(status.st_mode)) {
    close(file);
    throw DataError(path.string() + ": expected a token file, found no regular file");
  }
  mapped_bytes_ = static_cast<size_t>(status.st_size);
  if (mapped_bytes_ < sizeof(Header)) {
    close(file);
    throw DataError(path.string() +
                    ": not a token file, or truncated: " + std::to_string(mapped_bytes_) +
                    " bytes; the header alone has " + std::to_string(sizeof(Header)));
  }
  void* mapped = mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) fail(file, "cannot map the token file");
  close(file);

  Header header;
  std::memcpy(&header, mapped, sizeof header);
  try {
    check_header(header, mapped_bytes_, path.string());
  } catch (...) {
    munmap(mapped, mapped_bytes_);
    throw;
  }
  mapped_ = static_cast<const std::byte*>(mapped);
  bytes_per_token_ = static_cast<int>(header.bytes_per_token);
  token_count_ = static_cast<int64_t>(header.token_count);
  document_count_ = static_cast<int64_t>(header.document_count);
  vocab_size_ = static_cast<int32_t>(header.vocab_size);
  tokenizer_hash_ = header.tokenizer_hash;
}

TokenShard::~TokenShard() { munmap(const_cast<std::byte*>(mapped_), mapped_bytes_); }

void TokenShard::read(int64_t first, std::span<int32_t> out) const {
  const int64_t count = static_cast<int64_t>(out.size());
  if (first < 0 || count > token_count_ || first > token_count_ - count)
    throw InternalError(path_.string() + ": " + std::to_string(count) + " tokens from " +
                        std::to_string(first) + " on, of " + std::to_string(token_count_));
  const std::byte* from = mapped_ + sizeof(Header) + first * bytes_per_token_;
  const uint32_t largest = bytes_per_token_ == 2
                               ? copy_tokens<uint16_t>(from, out.data(), out.size())
                               : copy_tokens<uint32_t>(from, out.data(), out.size());
  if (count > 0 && largest >= static_cast<uint32_t>(vocab_size_)) {
    size_t i = 0;
    while (static_cast<uint32_t>(out[i]) != largest) ++i;
    throw DataError(path_.string() + ": corrupt: token " + std::to_string(first + i) + " is " +
                    std::to_string(largest) + "; the vocabulary has " +
                    std::to_string(vocab_size_));
  }
}

void TokenShard::require_tokenizer(uint64_t tokenizer_hash, std::string_view owner) const {
  if (tokenizer_hash != tokenizer_hash_)
    throw DataError(path_.string() + ": made by a tokenizer whose model file has the hash " +
                    hexadecimal(tokenizer_hash_) + "; that of " + std::string(owner) + " is " +
                    hexadecimal(tokenizer_hash) + ". Tokenize the text again with the latter.");
}

TokenShardWriter::TokenShardWriter(std::filesystem::path path, int32_t vocab_size,
                                   uint64_t tokenizer_hash)
    : path_(std::move(path)),
      temporary_path_(path_.string() + ".partial-" + std::to_string(getpid())),
      vocab_size_(vocab_size),
      tokenizer_hash_(tokenizer_hash),
      bytes_per_token_(bytes_for(vocab_size)) {
  file_ = open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) fail("cannot create");
  buffer_.reserve(kBufferBytes * 2);
  buffer_.resize(sizeof(Header));  // finish() writes the header over these zeros
}

TokenShardWriter::~TokenShardWriter() {
  if (file_ < 0) return;
  close(file_);
  unlink(temporary_path_.c_str());
}

void TokenShardWriter::fail(std::string_view what) const {
  const std::string reason = std::strerror(errno);
  throw DataError(temporary_path_.string() + ": " + std::string(what) + ": " + reason);
}

void TokenShardWriter::append(std::span<const int32_t> tokens) {
  for (int32_t token : tokens)
    if (token < 0 || token >= vocab_size_)
      throw InternalError(path_.string() + ": token " + std::to_string(token) +
                          " of a vocabulary of " + std::to_string(vocab_size_));
  if (bytes_per_token_ == 2)
    store_tokens<uint16_t>(tokens, buffer_);
  else
    store_tokens<uint32_t>(tokens, buffer_);
  token_count_ += static_cast<int64_t>(tokens.size());
  if (buffer_.size() >= kBufferBytes) flush();
}

void TokenShardWriter::flush() {
  std::span<const std::byte> rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = write(file_, rest.data(), rest.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("cannot write");
    }
    rest = rest.subspan(static_cast<size_t>(written));
  }
  buffer_.clear();
}

void TokenShardWriter::finish(int64_t document_count) {
  flush();
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.bytes_per_token = static_cast<uint32_t>(bytes_per_token_);
  header.token_count = static_cast<uint64_t>(token_count_);
  header.document_count = static_cast<uint64_t>(document_count);
  header.tokenizer_hash = tokenizer_hash_;
  header.vocab_size = static_cast<uint32_t>(vocab_size_);
  if (pwrite(file_, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
    fail("cannot write");
  if (fsync(file_) != 0) fail("cannot sync");
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0)
    fail("cannot rename to " + path_.string());
  close(file_);
  file_ = -1;

  std::filesystem::path folder = path_.parent_path();
  const int directory =
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    // Some file systems cannot sync a directory; the shard itself is complete either way.
    fsync(directory);
    close(directory);
  }
}

}  // namespace longshore::data
