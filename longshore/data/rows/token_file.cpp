#include "longshore/data/rows/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "longshore/base/error.h"
#include "longshore/base/pieces.h"
#include "longshore/base/printable.h"
#include "longshore/base/round_up.h"
#include "longshore/data/files/content_hash.h"
#include "longshore/data/files/conversion.h"

namespace longshore::data {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[8] = {'L', 'S', 'T', 'O', 'K', 'E', 'N', 'S'};
constexpr uint32_t kVersion = 4, kVersionWithImages = 5, kVersionWithPairs = 6,
                   kVersionWithColumns = 7;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t bytes_per_token;
  uint64_t token_count;
  uint64_t document_count;
  uint64_t tokenizer_fingerprint;
  uint32_t vocab_size;
  uint32_t has_loss_mask;
  // From here on not in version 1.
  uint64_t skipped_lines;
  // Version 2 has 8 bytes of zeros here, and ends.
  std::array<uint64_t, 2> content_hash;
  uint64_t header_hash;  // 0 in version 3
};
static_assert(sizeof(Header) == 80);

size_t header_bytes(uint32_t version) {
  if (version == 1) return offsetof(Header, skipped_lines);
  return version == 2 ? offsetof(Header, content_hash) + sizeof(uint64_t) : sizeof(Header);
}

uint64_t hash_of(const Header& header) {
  ContentHash hash;
  hash.append(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_hash)));
  return hash.words()[0];
}

constexpr uint64_t kDocumentEndBytes = sizeof(uint64_t);

// Far beyond any real vocabulary; a corrupt size must not become an allocation.
constexpr uint32_t kMaxVocabSize = 1 << 24;

std::string hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

int64_t two_byte_vocabulary(LossMask marks) {
  return marks == LossMask::present ? 1 << 15 : 1 << 16;
}

uint32_t no_loss_bit(int bytes_per_token) { return uint32_t{1} << (8 * bytes_per_token - 1); }

uint64_t padded(uint64_t bytes) { return round_up(bytes, kDocumentEndBytes); }

// The size of what follows the header; from version 5 on, before its tables.
uint64_t payload_bytes(const Header& header) {
  const uint64_t token_bytes = header.token_count * header.bytes_per_token;
  if (header.version == 1) return token_bytes;
  return padded(token_bytes) + header.document_count * kDocumentEndBytes;
}

bool has_magic(std::span<const std::byte> file) {
  return file.size() >= sizeof kMagic && std::memcmp(file.data(), kMagic, sizeof kMagic) == 0;
}

Header read_header(std::span<const std::byte> file, const std::filesystem::path& path) {
  auto refuse = [&](const std::string& found) { throw DataError(path_text(path) + ": " + found); };
  auto require_bytes = [&](size_t bytes) {
    if (file.size() < bytes)
      refuse("truncated: " + std::to_string(file.size()) + " bytes; the header alone has " +
             std::to_string(bytes));
  };
  Header header{};
  if (!has_magic(file)) {
    const std::string command = conversion_command(path);
    refuse(
        "not a token file: it does not begin with \"LSTOKENS\"; text is read from .txt, lines of "
        "JSON from .jsonl, and tokenize --out makes token files of both" +
        (command.empty() ? "" : "; nearest: " + command));
  }
  require_bytes(header_bytes(1));
  std::memcpy(&header, file.data(), header_bytes(1));
  if (header.version < 1 || header.version > kVersionWithColumns)
    refuse("token file version " + std::to_string(header.version) + "; expected version 1 to " +
           std::to_string(kVersionWithColumns));
  require_bytes(header_bytes(header.version));
  std::memcpy(&header, file.data(), header_bytes(header.version));
  return header;
}

// Throws a DataError where a field of the header is impossible.
void check_header(const Header& header, uint64_t payload, const std::string& path) {
  auto refuse = [&](const std::string& found) { throw DataError(path + ": " + found); };
  if (header.bytes_per_token != 2 && header.bytes_per_token != 4)
    refuse("corrupt header: " + std::to_string(header.bytes_per_token) +
           " bytes per token; expected 2 or 4");
  if (header.has_loss_mask > (header.version == 1 ? 0 : 1))
    refuse("corrupt header: bytes 44 to 47 are " + std::to_string(header.has_loss_mask));
  const auto marks = header.has_loss_mask ? LossMask::present : LossMask::absent;
  const int64_t most = header.bytes_per_token == 2 ? two_byte_vocabulary(marks) : kMaxVocabSize;
  if (header.vocab_size < 1 || header.vocab_size > most)
    refuse("corrupt header: vocabulary size " + std::to_string(header.vocab_size) +
           "; expected 1 to " + std::to_string(most) + " with " +
           std::to_string(header.bytes_per_token) + " bytes per token");
  if (header.document_count > header.token_count)
    refuse("corrupt header: " + std::to_string(header.document_count) + " documents in " +
           std::to_string(header.token_count) + " tokens");
  const bool fits = header.token_count <= payload / header.bytes_per_token;
  const bool is_whole =
      fits && (header.version >= kVersionWithImages ? payload_bytes(header) <= payload
                                                    : payload_bytes(header) == payload);
  if (!is_whole)
    refuse(
        "truncated or corrupt: the header says " + std::to_string(header.token_count) +
        " tokens of " + std::to_string(header.bytes_per_token) + " bytes" +
        (header.version == 1 ? "" : " in " + std::to_string(header.document_count) + " documents") +
        ", the file holds " + std::to_string(payload) + " bytes of them");
  if (header.version == 2 && header.content_hash[0] != 0)
    refuse("corrupt header: bytes 56 to 63 are not zero");
  if (header.version == 3 && header.header_hash != 0)
    refuse("corrupt header: bytes 72 to 79 are not zero");
  if (header.version == kVersionWithPairs && header.has_loss_mask == 0)
    refuse("corrupt header: bytes 44 to 47 are 0; expected 1, since not all of a pair is learnt");
  if (header.version == kVersionWithPairs && header.document_count % 2 != 0)
    refuse("corrupt header: " + std::to_string(header.document_count) +
           " documents; expected an even number, since each pair has two");
  if (header.skipped_lines >> 62)
    refuse("corrupt header: " + std::to_string(header.skipped_lines) + " lines skipped");
  if (header.version > 3 && header.header_hash != hash_of(header))
    refuse("changed since it was written: its header has the hash " + hexadecimal(hash_of(header)) +
           ", expected " + hexadecimal(header.header_hash) + ". Tokenize the text again");
}

// Copies `count` tokens without the bits outside `mask` and gives the largest, read as unsigned: a
// uint32 beyond int32 is found too.
template <typename Stored>
uint32_t copy_tokens(const std::byte* from, int32_t* to, size_t count, uint32_t mask) {
  const Stored* tokens = reinterpret_cast<const Stored*>(from);
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t token = tokens[i] & mask;
    to[i] = static_cast<int32_t>(token);
    largest = largest < token ? token : largest;
  }
  return largest;
}

template <typename Stored>
void copy_loss_mask(const std::byte* from, std::span<uint8_t> to, uint32_t no_loss) {
  const Stored* tokens = reinterpret_cast<const Stored*>(from);
  for (size_t i = 0; i < to.size(); ++i) to[i] = (tokens[i] & no_loss) == 0;
}

template <typename Stored>
void store_tokens(std::span<const int32_t> tokens, std::span<const uint8_t> carries_loss,
                  std::vector<std::byte>& buffer) {
  buffer.resize(tokens.size() * sizeof(Stored));
  Stored* to = reinterpret_cast<Stored*>(buffer.data());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool is_marked = !carries_loss.empty() && carries_loss[i] == 0;
    to[i] = static_cast<Stored>(static_cast<uint32_t>(tokens[i]) |
                                (is_marked ? no_loss_bit(sizeof(Stored)) : 0));
  }
}

// Returns read(). What that throws of a table without the file's name is thrown with it.
template <class Read>
auto naming(const std::filesystem::path& path, Read read) {
  try {
    return read();
  } catch (const DataError& error) {
    throw DataError(path_text(path) + ": " + error.what());
  }
}

}  // namespace

bool begins_as_token_file(const std::filesystem::path& path) {
  return has_magic(FileMapping(path, Access::anywhere).bytes());
}

TokenFile::TokenFile(const std::filesystem::path& path)
    : path_(path), mapping_(path, Access::anywhere) {
  const Header header = read_header(mapping_.bytes(), path);
  version_ = header.version;
  header_bytes_ = static_cast<int64_t>(header_bytes(version_));
  check_header(header, mapping_.bytes().size() - static_cast<size_t>(header_bytes_),
               path_text(path));
  bytes_per_token_ = static_cast<int>(header.bytes_per_token);
  token_count_ = static_cast<int64_t>(header.token_count);
  document_count_ = static_cast<int64_t>(header.document_count);
  vocab_size_ = static_cast<int32_t>(header.vocab_size);
  tokenizer_fingerprint_ = header.tokenizer_fingerprint;
  loss_mask_ = header.has_loss_mask ? LossMask::present : LossMask::absent;
  skipped_lines_ = static_cast<int64_t>(header.skipped_lines);
  content_hash_ = header.content_hash;
  if (!has_documents()) return;
  const uint64_t end = document_count_ == 0 ? 0 : document_end(document_count_ - 1);
  if (end != header.token_count)
    throw DataError(path_text(path) + ": corrupt: the last document ends at token " +
                    std::to_string(end) + " of " + std::to_string(token_count_));
  if (version_ < kVersionWithImages) return;
  std::span<const std::byte> tables =
      mapping_.bytes().subspan(static_cast<uint64_t>(header_bytes_) + payload_bytes(header));
  naming(path_, [&] {
    if (version_ == kVersionWithColumns)
      tables = tables.subspan(columns_.emplace(tables, token_count_, vocab_size_).bytes());
    images_.emplace(tables, document_count_);
  });
}

const std::vector<TokenColumn>& TokenFile::columns() const {
  static const std::vector<TokenColumn> kNone;
  return columns_ ? columns_->all() : kNone;
}

const TokenColumn* TokenFile::column(std::string_view name) const {
  const auto found = std::ranges::find(columns(), name, &TokenColumn::name);
  return found == columns().end() ? nullptr : &*found;
}

void TokenFile::read_column(std::string_view name, int64_t first, int64_t width,
                            std::span<float> out) const {
  naming(path_, [&] { required_columns(name).read(name, first, width, out); });
}

void TokenFile::read_column(std::string_view name, int64_t first, int64_t width,
                            std::span<int32_t> out) const {
  naming(path_, [&] { required_columns(name).read(name, first, width, out); });
}

const TokenColumns& TokenFile::required_columns(std::string_view name) const {
  if (!columns_) throw InternalError(path_text(path_) + ": no column " + std::string(name));
  return *columns_;
}

bool TokenFile::has_pairs() const { return version_ == kVersionWithPairs; }

ImageTable::Range TokenFile::images(int64_t document) const {
  if (!images_) return {};
  return naming(path_, [&] { return images_->of_document(document); });
}

ImageReference TokenFile::image(int64_t number) const {
  if (number < 0 || number >= image_count())
    throw InternalError(path_text(path_) + ": image " + std::to_string(number) + " of " +
                        std::to_string(image_count()));
  return naming(path_, [&] { return (*images_)[number]; });
}

const std::byte* TokenFile::tokens_from(int64_t first, size_t count) const {
  const int64_t signed_count = static_cast<int64_t>(count);
  if (first < 0 || signed_count > token_count_ || first > token_count_ - signed_count)
    throw InternalError(path_text(path_) + ": " + std::to_string(count) + " tokens from " +
                        std::to_string(first) + " on, of " + std::to_string(token_count_));
  return mapping_.bytes().data() + header_bytes_ + first * bytes_per_token_;
}

void TokenFile::read(int64_t first, std::span<int32_t> out) const {
  const std::byte* from = tokens_from(first, out.size());
  const uint32_t mask =
      loss_mask_ == LossMask::present ? ~no_loss_bit(bytes_per_token_) : ~uint32_t{0};
  const uint32_t largest = bytes_per_token_ == 2
                               ? copy_tokens<uint16_t>(from, out.data(), out.size(), mask)
                               : copy_tokens<uint32_t>(from, out.data(), out.size(), mask);
  if (!out.empty() && largest >= static_cast<uint32_t>(vocab_size_)) {
    size_t i = 0;
    while (static_cast<uint32_t>(out[i]) != largest) ++i;
    throw DataError(path_text(path_) + ": corrupt: token " + std::to_string(first + i) + " is " +
                    std::to_string(largest) + "; the vocabulary has " +
                    std::to_string(vocab_size_));
  }
}

void TokenFile::read_loss_mask(int64_t first, std::span<uint8_t> out) const {
  const std::byte* from = tokens_from(first, out.size());
  if (loss_mask_ == LossMask::absent)
    std::ranges::fill(out, uint8_t{1});
  else if (bytes_per_token_ == 2)
    copy_loss_mask<uint16_t>(from, out, no_loss_bit(2));
  else
    copy_loss_mask<uint32_t>(from, out, no_loss_bit(4));
}

uint64_t TokenFile::document_end(int64_t index) const {
  const uint64_t tokens = padded(static_cast<uint64_t>(token_count_ * bytes_per_token_));
  uint64_t end;
  std::memcpy(&end,
              mapping_.bytes().data() + header_bytes_ + tokens +
                  static_cast<uint64_t>(index) * kDocumentEndBytes,
              sizeof end);
  return end;
}

TokenFile::Range TokenFile::document(int64_t index) const {
  if (!has_documents() || index < 0 || index >= document_count_)
    throw InternalError(path_text(path_) + ": document " + std::to_string(index) + " of " +
                        std::to_string(document_count_));
  const uint64_t first = index == 0 ? 0 : document_end(index - 1);
  const uint64_t end = document_end(index);
  if (first >= end || end > static_cast<uint64_t>(token_count_))
    throw DataError(path_text(path_) + ": corrupt: document " + std::to_string(index) +
                    " has the tokens from " + std::to_string(first) + " to " + std::to_string(end) +
                    ", of " + std::to_string(token_count_));
  return {static_cast<int64_t>(first), static_cast<int64_t>(end - first)};
}

void TokenFile::verify(std::stop_token stop, std::atomic<int64_t>* bytes_read) const {
  if (version_ < 3) return;
  const std::span<const std::byte> content =
      mapping_.bytes().subspan(static_cast<size_t>(header_bytes_));
  ContentHash hash;
  for_each_piece(std::ssize(content), int64_t{4} << 20, [&](int64_t first, int64_t count) {
    if (stop.stop_requested()) return;
    if (bytes_read) *bytes_read += count;
    hash.append(content.subspan(static_cast<size_t>(first), static_cast<size_t>(count)));
  });
  if (stop.stop_requested() || hash.words() == content_hash_) return;
  throw DataError(path_text(path_) + ": changed since it was written: its contents have the hash " +
                  hash.text() + ", expected " + hexadecimal(content_hash_[0]) +
                  hexadecimal(content_hash_[1]) + ". Tokenize the text again");
}

// The first part has the header, and with it the hash of all that follows where it has one.
std::string TokenFile::identity() const { return sampled_hash(mapping_.bytes()); }

void TokenFile::require_tokenizer(uint64_t tokenizer_fingerprint, std::string_view owner) const {
  if (tokenizer_fingerprint != tokenizer_fingerprint_)
    throw ConfigError(path_text(path_) + ": made by a tokenizer whose model file has the hash " +
                      hexadecimal(tokenizer_fingerprint_) + "; that of " + std::string(owner) +
                      " is " + hexadecimal(tokenizer_fingerprint) +
                      ". Tokenize the text again with the latter.");
}

TokenFileWriter::TokenFileWriter(std::filesystem::path path, int32_t vocab_size,
                                 uint64_t tokenizer_fingerprint, LossMask loss_mask,
                                 Pairing pairing, std::vector<TokenColumn> columns)
    : file_(path),
      vocab_size_(vocab_size),
      tokenizer_fingerprint_(tokenizer_fingerprint),
      loss_mask_(loss_mask),
      pairing_(pairing),
      bytes_per_token_(vocab_size <= two_byte_vocabulary(loss_mask) ? 2 : 4),
      images_(path),
      columns_(std::move(path), std::move(columns)) {
  if (pairing_ == Pairing::present && loss_mask_ == LossMask::absent)
    throw InternalError(path_text(file_.path()) + ": pairs without marks");
  if (pairing_ == Pairing::present && columns_.has_any())
    throw InternalError(path_text(file_.path()) + ": pairs with columns");
  const Header to_come{};
  file_.append(std::as_bytes(std::span(&to_come, 1)));
}

void TokenFileWriter::append(std::span<const int32_t> tokens, std::span<const uint8_t> carries_loss,
                             std::span<const ImageReference> images) {
  auto refuse = [&](const std::string& what) {
    throw InternalError(path_text(file_.path()) + ": " + what);
  };
  if (tokens.empty()) refuse("an empty document");
  for (int32_t token : tokens)
    if (token < 0 || token >= vocab_size_)
      refuse("token " + std::to_string(token) + " of a vocabulary of " +
             std::to_string(vocab_size_));
  if (!carries_loss.empty() && carries_loss.size() != tokens.size())
    refuse(std::to_string(carries_loss.size()) + " loss mask for " + std::to_string(tokens.size()) +
           " tokens");
  if (loss_mask_ == LossMask::absent && std::ranges::find(carries_loss, 0) != carries_loss.end())
    refuse("a token without loss in a file without marks");
  if (bytes_per_token_ == 2)
    store_tokens<uint16_t>(tokens, carries_loss, buffer_);
  else
    store_tokens<uint32_t>(tokens, carries_loss, buffer_);
  append_content(buffer_);
  token_count_ += static_cast<int64_t>(tokens.size());
  document_ends_.push_back(static_cast<uint64_t>(token_count_));
  images_.add_document(images);
}

void TokenFileWriter::append_content(std::span<const std::byte> bytes) {
  file_.append(bytes);
  content_hash_.append(bytes);
}

void TokenFileWriter::finish(int64_t skipped_lines) {
  const bool has_pairs = pairing_ == Pairing::present;
  if (has_pairs && document_count() % 2 != 0)
    throw InternalError(path_text(file_.path()) + ": half a pair");
  if (columns_.bytes() != token_count_ * columns_.bytes_of_token())
    throw InternalError(path_text(file_.path()) + ": " + std::to_string(columns_.bytes()) +
                        " bytes beside " + std::to_string(token_count_) + " tokens");
  const uint64_t token_bytes = static_cast<uint64_t>(token_count_ * bytes_per_token_);
  const std::vector<std::byte> zeros(padded(token_bytes) - token_bytes);
  append_content(zeros);
  append_content(std::as_bytes(std::span(document_ends_)));
  const bool has_images = images_.count() > 0;
  const auto append = [&](std::span<const std::byte> bytes) { append_content(bytes); };
  columns_.write(append);
  if (has_images || has_pairs || columns_.has_any()) images_.write(append);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = columns_.has_any() ? kVersionWithColumns
                   : has_pairs        ? kVersionWithPairs
                   : has_images       ? kVersionWithImages
                                      : kVersion;
  header.bytes_per_token = static_cast<uint32_t>(bytes_per_token_);
  header.token_count = static_cast<uint64_t>(token_count_);
  header.document_count = document_ends_.size();
  header.tokenizer_fingerprint = tokenizer_fingerprint_;
  header.vocab_size = static_cast<uint32_t>(vocab_size_);
  header.has_loss_mask = loss_mask_ == LossMask::present ? 1 : 0;
  header.skipped_lines = static_cast<uint64_t>(skipped_lines);
  header.content_hash = content_hash_.words();
  header.header_hash = hash_of(header);
  file_.overwrite_start(std::as_bytes(std::span(&header, 1)));
  file_.finish();
}

}  // namespace longshore::data
