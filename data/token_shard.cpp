#include "data/token_shard.h"

#include <bit>
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

TokenShard::TokenShard(const std::filesystem::path& path)
    : path_(path), mapping_(path, Access::anywhere) {
  const size_t bytes = mapping_.bytes().size();
  if (bytes < sizeof(Header))
    throw DataError(path.string() + ": not a token file, or truncated: " + std::to_string(bytes) +
                    " bytes; the header alone has " + std::to_string(sizeof(Header)));
  Header header;
  std::memcpy(&header, mapping_.bytes().data(), sizeof header);
  check_header(header, bytes, path.string());
  bytes_per_token_ = static_cast<int>(header.bytes_per_token);
  token_count_ = static_cast<int64_t>(header.token_count);
  document_count_ = static_cast<int64_t>(header.document_count);
  vocab_size_ = static_cast<int32_t>(header.vocab_size);
  tokenizer_hash_ = header.tokenizer_hash;
}

void TokenShard::read(int64_t first, std::span<int32_t> out) const {
  const int64_t count = static_cast<int64_t>(out.size());
  if (first < 0 || count > token_count_ || first > token_count_ - count)
    throw InternalError(path_.string() + ": " + std::to_string(count) + " tokens from " +
                        std::to_string(first) + " on, of " + std::to_string(token_count_));
  const std::byte* from = mapping_.bytes().data() + sizeof(Header) + first * bytes_per_token_;
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
    : file_(std::move(path)),
      vocab_size_(vocab_size),
      tokenizer_hash_(tokenizer_hash),
      bytes_per_token_(bytes_for(vocab_size)) {
  const Header to_come{};
  file_.append(std::as_bytes(std::span(&to_come, 1)));
}

void TokenShardWriter::append(std::span<const int32_t> tokens) {
  for (int32_t token : tokens)
    if (token < 0 || token >= vocab_size_)
      throw InternalError(file_.path().string() + ": token " + std::to_string(token) +
                          " of a vocabulary of " + std::to_string(vocab_size_));
  buffer_.clear();
  if (bytes_per_token_ == 2)
    store_tokens<uint16_t>(tokens, buffer_);
  else
    store_tokens<uint32_t>(tokens, buffer_);
  file_.append(buffer_);
  token_count_ += static_cast<int64_t>(tokens.size());
}

void TokenShardWriter::finish(int64_t document_count) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.bytes_per_token = static_cast<uint32_t>(bytes_per_token_);
  header.token_count = static_cast<uint64_t>(token_count_);
  header.document_count = static_cast<uint64_t>(document_count);
  header.tokenizer_hash = tokenizer_hash_;
  header.vocab_size = static_cast<uint32_t>(vocab_size_);
  file_.overwrite_start(std::as_bytes(std::span(&header, 1)));
  file_.finish();
}

}  // namespace longshore::data
