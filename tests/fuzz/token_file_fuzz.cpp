// Any bytes as a token file whose header has the hash of its fields: refused with a DataError, or
// with documents that lie in it, whose tokens, images and columns can be read or are refused.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/files/content_hash.h"
#include "longshore/data/rows/token_file.h"
#include "tests/fuzz/memory_folder.h"

namespace {

using longshore::data::TokenColumn;
using longshore::data::TokenFile;

void require(bool condition) {
  if (!condition) std::abort();
}

template <class Read>
void may_refuse(Read read) {
  try {
    read();
  } catch (const longshore::DataError& error) {
    // What a message quotes of the file is printable.
    require(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

// Where a version from 4 on has it.
void set_header_hash(std::vector<std::byte>& file) {
  constexpr size_t kPlace = 72;
  uint32_t version;
  if (file.size() < kPlace + sizeof(uint64_t)) return;
  std::memcpy(&version, file.data() + 8, sizeof version);
  if (version < 4) return;
  longshore::data::ContentHash hash;
  hash.append(std::span(file).first(kPlace));
  const uint64_t word = hash.words()[0];
  std::memcpy(file.data() + kPlace, &word, sizeof word);
}

template <class T>
void read_column(const TokenFile& file, const TokenColumn& column, TokenFile::Range tokens) {
  std::vector<T> values(static_cast<size_t>(tokens.count * column.width));
  file.read_column(column.name, tokens.first, column.width, std::span<T>(values));
}

void read_tokens(const TokenFile& file, TokenFile::Range tokens) {
  require(tokens.first >= 0 && tokens.count >= 0 &&
          tokens.first + tokens.count <= file.token_count());
  std::vector<int32_t> ids(static_cast<size_t>(tokens.count));
  std::vector<uint8_t> carries_loss(ids.size());
  file.read(tokens.first, ids);
  for (const int32_t id : ids) require(id >= 0 && id < file.vocab_size());
  file.read_loss_mask(tokens.first, carries_loss);
  for (const TokenColumn& column : file.columns())
    if (column.element == TokenColumn::Element::int32)
      read_column<int32_t>(file, column, tokens);
    else
      read_column<float>(file, column, tokens);
}

void read_document(const TokenFile& file, int64_t index) {
  const TokenFile::Range tokens = file.document(index);
  require(tokens.count > 0);
  read_tokens(file, tokens);
  const auto images = file.images(index);
  require(images.first >= 0 && images.first + images.count <= file.image_count());
  for (int64_t image = images.first; image < images.first + images.count; ++image)
    require(file.image(image).size >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const longshore::MemoryFolder folder;
  const std::filesystem::path path = folder.path() / "a.tokens";
  std::vector<std::byte> bytes(size);
  std::ranges::copy(std::as_bytes(std::span(data, size)), bytes.begin());
  set_header_hash(bytes);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  may_refuse([&] {
    const TokenFile file(path);
    may_refuse([&] { file.verify({}); });
    if (!file.has_documents()) return read_tokens(file, {0, file.token_count()});
    for (int64_t i = 0; i < file.document_count(); ++i) may_refuse([&] { read_document(file, i); });
  });
  return 0;
}
