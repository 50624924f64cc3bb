#include "longshore/data/rows/referenced_image.h"

#include <array>
#include <optional>
#include <span>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/files/content_hash.h"
#include "longshore/data/files/file_mapping.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

// Returns read(). Before what that throws comes the image's name.
template <class Read>
auto naming(const std::string& name, Read read) {
  try {
    return read();
  } catch (const DataError& error) {
    throw DataError(name + ": " + error.what());
  }
}

FileMapping open_image(const fs::path& path) {
  FileMapping file(path, Access::from_front_to_back);
  if (std::ssize(file.bytes()) > kMaxImageFileBytes)
    throw DataError(path_text(path) + ": found " + std::to_string(file.bytes().size()) +
                    " bytes, expected at most " + std::to_string(kMaxImageFileBytes));
  return file;
}

std::array<uint64_t, 2> hash_of(Bytes bytes) {
  ContentHash hash;
  hash.append(bytes);
  return hash.words();
}

fs::path path_of(const TokenFile& file, const ImageReference& reference) {
  return in_full(file.path().parent_path() / reference.contents);
}

// The image of a file's bytes, without their name in messages.
Image checked_image(Bytes bytes, const ImageReference& reference, const DecodeOptions& options) {
  if (std::ssize(bytes) != reference.size || hash_of(bytes) != reference.hash)
    throw DataError(
        "changed since its text was tokenized: found " + std::to_string(bytes.size()) + " bytes" +
        (std::ssize(bytes) == reference.size ? " with another hash"
                                             : ", expected " + std::to_string(reference.size)) +
        "; nearest: remove the token file, and tokenize its text again");
  return decode_image(bytes, options);
}

}  // namespace

fs::path in_full(const fs::path& path) { return (fs::current_path() / path).lexically_normal(); }

ImageReference refer_to_image(const ImageSource& source, int64_t line_number,
                              const ImageFolders& folders, int64_t max_pixels) {
  ImageReference reference{.kind = source.kind, .line_number = line_number};
  auto look_at = [&](Bytes bytes, const std::string& name) {
    naming(name, [&] { decode_image(bytes, {.max_pixels = max_pixels}); });
    reference.size = std::ssize(bytes);
    reference.hash = hash_of(bytes);
  };
  if (source.kind == ImageSource::Kind::embedded) {
    look_at(source.bytes, "the image in base64");
    reference.contents.assign(reinterpret_cast<const char*>(source.bytes.data()),
                              source.bytes.size());
    return reference;
  }
  const fs::path named = source.path, path = in_full(folders.text / named);
  look_at(open_image(path).bytes(), path_text(path));
  reference.contents =
      (named.is_absolute() ? path : path.lexically_relative(in_full(folders.tokens))).string();
  return reference;
}

bool has_images_of_these_sizes(const TokenFile& file) {
  for (int64_t number = 0; number < file.image_count(); ++number) {
    if (file.has_embedded(number)) continue;
    const ImageReference reference = file.image(number);
    std::error_code error;
    const uintmax_t size = fs::file_size(path_of(file, reference), error);
    if (error || size != static_cast<uintmax_t>(reference.size)) return false;
  }
  return true;
}

Image read_image(const fs::path& path, const DecodeOptions& options) {
  const FileMapping file = open_image(path);
  return naming(path_text(path), [&] { return decode_image(file.bytes(), options); });
}

Image read_image(const TokenFile& file, int64_t number, const DecodeOptions& options) {
  const ImageReference reference = file.image(number);
  const std::string line = " (line " + std::to_string(reference.line_number) + " of the text of " +
                           path_text(file.path()) + ")";
  if (reference.kind == ImageSource::Kind::embedded)
    return naming("the image in base64" + line, [&] {
      return checked_image(std::as_bytes(std::span(reference.contents)), reference, options);
    });
  const fs::path path = path_of(file, reference);
  std::optional<FileMapping> image;
  try {
    image.emplace(open_image(path));
  } catch (const DataError& error) {
    throw DataError(error.what() + line);
  }
  return naming(path_text(path) + line,
                [&] { return checked_image(image->bytes(), reference, options); });
}

}  // namespace longshore::data
