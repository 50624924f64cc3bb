#include "longshore/data/rows/image_table.h"

#include <cstring>

#include "longshore/base/error.h"
#include "longshore/data/files/content_hash.h"

namespace longshore::data {
namespace {

struct TableHeader {
  uint64_t image_count, contents_bytes, hash;
};
static_assert(sizeof(TableHeader) == 24);

constexpr size_t kEntryBytes = 48, kEndBytes = sizeof(uint64_t);
constexpr uint64_t kMostNumber = uint64_t{1} << 62;

uint64_t hash_of(const TableHeader& header) {
  ContentHash hash;
  hash.append(std::as_bytes(std::span(&header, 1)).first(offsetof(TableHeader, hash)));
  return hash.words()[0];
}

template <class T>
T value_at(std::span<const std::byte> bytes, size_t at) {
  T value;  // the mapped file need not be aligned
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

[[noreturn]] void refuse(const std::string& what) { throw DataError("corrupt: " + what); }

}  // namespace

ImageTable::ImageTable(std::span<const std::byte> bytes, int64_t document_count) {
  const auto documents = static_cast<uint64_t>(document_count);
  if (bytes.size() < sizeof(TableHeader)) refuse("no table of images");
  const auto header = value_at<TableHeader>(bytes, 0);
  if (header.hash != hash_of(header)) refuse("the numbers of images have another hash");
  uint64_t left = bytes.size() - sizeof(TableHeader);
  auto takes = [&](uint64_t count, uint64_t each) {
    if (count > left / each)
      refuse(std::to_string(header.image_count) + " images, more than the file has bytes for");
    left -= count * each;
    return count * each;
  };
  const uint64_t ends = takes(documents, kEndBytes);
  const uint64_t entries = takes(header.image_count, kEntryBytes);
  if (left != header.contents_bytes)
    refuse("found " + std::to_string(left) + " bytes of images, expected " +
           std::to_string(header.contents_bytes));
  document_ends_ = bytes.subspan(sizeof header, ends);
  entries_ = bytes.subspan(sizeof header + ends, entries);
  contents_ = bytes.subspan(sizeof header + ends + entries);
  image_count_ = static_cast<int64_t>(header.image_count);
  const uint64_t end = documents == 0 ? 0 : value_at<uint64_t>(document_ends_, ends - kEndBytes);
  if (end != header.image_count)
    refuse("the last document ends at image " + std::to_string(end) + " of " +
           std::to_string(image_count_));
}

ImageTable::Range ImageTable::of_document(int64_t document) const {
  const size_t at = static_cast<size_t>(document) * kEndBytes;
  const uint64_t first = document == 0 ? 0 : value_at<uint64_t>(document_ends_, at - kEndBytes);
  const uint64_t end = value_at<uint64_t>(document_ends_, at);
  if (first > end || end > static_cast<uint64_t>(image_count_))
    refuse("document " + std::to_string(document) + " has the images from " +
           std::to_string(first) + " to " + std::to_string(end) + ", of " +
           std::to_string(image_count_));
  return {static_cast<int64_t>(first), static_cast<int64_t>(end - first)};
}

bool ImageTable::is_embedded(int64_t image) const {
  const auto kind = value_at<uint64_t>(entries_, static_cast<size_t>(image) * kEntryBytes);
  return kind == static_cast<uint64_t>(ImageSource::Kind::embedded);
}

ImageReference ImageTable::operator[](int64_t image) const {
  const auto entry = entries_.subspan(static_cast<size_t>(image) * kEntryBytes, kEntryBytes);
  const auto kind = value_at<uint64_t>(entry, 0), line_number = value_at<uint64_t>(entry, 8),
             size = value_at<uint64_t>(entry, 16), end = value_at<uint64_t>(entry, 40);
  const uint64_t first =
      image == 0 ? 0 : value_at<uint64_t>(entries_, static_cast<size_t>(image) * kEntryBytes - 8);
  const std::string name = "image " + std::to_string(image);
  if (kind > 1 || line_number < 1 || line_number > kMostNumber || size > kMostNumber)
    refuse(name + " is of the kind " + std::to_string(kind) + ", on line " +
           std::to_string(line_number) + ", of " + std::to_string(size) + " bytes");
  if (first > end || end > contents_.size())
    refuse(name + " has the bytes from " + std::to_string(first) + " to " + std::to_string(end) +
           ", of " + std::to_string(contents_.size()));
  const auto contents = contents_.subspan(first, end - first);
  ImageReference reference{
      .kind = static_cast<ImageSource::Kind>(kind),
      .line_number = static_cast<int64_t>(line_number),
      .size = static_cast<int64_t>(size),
      .hash = value_at<std::array<uint64_t, 2>>(entry, 24),
      .contents = std::string(reinterpret_cast<const char*>(contents.data()), contents.size())};
  const bool is_embedded = reference.kind == ImageSource::Kind::embedded;
  if (is_embedded && contents.size() != size)
    refuse(name + " has " + std::to_string(contents.size()) + " bytes, expected " +
           std::to_string(size));
  if (!is_embedded && (contents.empty() || reference.contents.find('\0') != std::string::npos))
    refuse(name + " has no path");
  return reference;
}

void ImageTableWriter::add_document(std::span<const ImageReference> images) {
  for (const ImageReference& image : images) {
    contents_.append(std::as_bytes(std::span(image.contents)));
    entries_.push_back({.kind = static_cast<uint64_t>(image.kind),
                        .line_number = static_cast<uint64_t>(image.line_number),
                        .size = static_cast<uint64_t>(image.size),
                        .hash = image.hash,
                        .end = static_cast<uint64_t>(contents_.bytes())});
  }
  document_ends_.push_back(entries_.size());
}

void ImageTableWriter::write(const std::function<void(std::span<const std::byte>)>& append) {
  TableHeader header{entries_.size(), static_cast<uint64_t>(contents_.bytes()), 0};
  header.hash = hash_of(header);
  append(std::as_bytes(std::span(&header, 1)));
  append(std::as_bytes(std::span(document_ends_)));
  static_assert(sizeof(Entry) == kEntryBytes);
  append(std::as_bytes(std::span(entries_)));
  contents_.read(append);
}

}  // namespace longshore::data
