// An ImageTable is the part of a token file that says which images its documents have. 24 bytes:
//
//   0   uint64   number of images
//   8   uint64   number of bytes of what stands for them, B
//   16  uint64   the high half of the XXH3-128 of these 16 bytes
//
// then for each document a uint64: where among the images its own end; for each image
//
//   0   uint64   0 if it is a file, 1 if the token file holds it
//   8   uint64   number of the line that has it in the text, from 1
//   16  uint64   size of the file in bytes
//   24  2 uint64 XXH3-128 of these bytes, the high half first
//   40  uint64   where among the B bytes what stands for it ends
//
// and the B bytes: of each image its path, relative to the token file's folder or absolute, or the
// bytes of its file.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "longshore/base/spool_file.h"
#include "longshore/data/images/image_source.h"

namespace longshore::data {

// An image of a document, and what its file held when the text was tokenized.
struct ImageReference {
  ImageSource::Kind kind = ImageSource::Kind::path;
  int64_t line_number = 0;
  int64_t size = 0;                // bytes
  std::array<uint64_t, 2> hash{};  // ContentHash
  std::string contents;            // the path, or the bytes of the file
  bool operator==(const ImageReference&) const = default;
};

// Reads the table where it lies. Sizes are checked when it is opened, entries when they are read;
// either throws a DataError without the file's name.
class ImageTable {
 public:
  struct Range {
    int64_t first = 0, count = 0;
  };

  // `bytes` is all that is left of the file, which must outlive the table.
  ImageTable(std::span<const std::byte> bytes, int64_t document_count);

  int64_t count() const { return image_count_; }
  // The images of a document that is there.
  Range of_document(int64_t document) const;
  // Of an image below count(): whether the table holds its bytes, read without them, and all.
  bool is_embedded(int64_t image) const;
  ImageReference operator[](int64_t image) const;

 private:
  std::span<const std::byte> document_ends_, entries_, contents_;
  int64_t image_count_ = 0;
};

// Collects a table: takes 8 bytes of memory a document and 48 an image. What stands for images goes
// to a SpoolFile in the folder of `path`, which is the token file's. Throws FileError
// where the file system refuses.
class ImageTableWriter {
 public:
  explicit ImageTableWriter(std::filesystem::path path) : contents_(std::move(path)) {}

  void add_document(std::span<const ImageReference> images);

  int64_t count() const { return static_cast<int64_t>(entries_.size()); }

  // Hands the table's bytes over piece by piece.
  void write(const std::function<void(std::span<const std::byte>)>& append);

 private:
  struct Entry {
    uint64_t kind, line_number, size;
    std::array<uint64_t, 2> hash;
    uint64_t end;
  };

  std::vector<uint64_t> document_ends_;
  std::vector<Entry> entries_;
  SpoolFile contents_;
};

}  // namespace longshore::data
