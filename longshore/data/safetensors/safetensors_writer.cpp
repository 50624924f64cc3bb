#include "longshore/data/safetensors/safetensors_writer.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"

namespace longshore::data {
namespace {

constexpr size_t kAlignment = 8;

// Why the tensors cannot stand in one file, or "".
std::string fault(std::span<const SafetensorsInfo> tensors) {
  if (tensors.size() > kMaxSafetensorsTensors)
    return std::to_string(tensors.size()) + " tensors, expected at most " +
           std::to_string(kMaxSafetensorsTensors);
  std::set<std::string_view> names;
  for (const SafetensorsInfo& tensor : tensors) {
    const std::string here = "tensor " + in_quotes(tensor.name);
    if (tensor.name == "__metadata__") return here + ": no name for one";
    if (valid_utf8_prefix(tensor.name) < tensor.name.size()) return here + ": not UTF-8";
    if (!names.insert(tensor.name).second) return here + ": found twice, expected once";
    if (tensor.shape.size() > kMaxSafetensorsRank)
      return here + ": " + std::to_string(tensor.shape.size()) + " dimensions, expected at most " +
             std::to_string(kMaxSafetensorsRank);
    if (std::ranges::any_of(tensor.shape, [](int64_t size) { return size < 0; }))
      return here + ": negative size";
  }
  return "";
}

std::string header_entry(const SafetensorsInfo& tensor, int64_t begin, int64_t end) {
  std::string sizes;
  for (int64_t size : tensor.shape) sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
  return nlohmann::json(tensor.name).dump() + ":{\"dtype\":\"" + name(tensor.dtype) +
         "\",\"shape\":[" + sizes + "],\"data_offsets\":[" + std::to_string(begin) + "," +
         std::to_string(end) + "]}";
}

// Length and text, padded so that the data is aligned.
std::string header(std::span<const SafetensorsInfo> tensors) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  int64_t offset = 0;
  for (const SafetensorsInfo& tensor : tensors) {
    const int64_t begin = offset;
    if (__builtin_add_overflow(offset, tensor.bytes(), &offset))
      throw InternalError("tensor " + in_quotes(tensor.name) + ": data beyond 2^63 - 1 bytes");
    text += "," + header_entry(tensor, begin, offset);
  }
  text += "}";
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (text.size() > kMaxSafetensorsHeaderBytes)
    throw InternalError("a header of " + std::to_string(text.size()) + " bytes, expected at most " +
                        std::to_string(kMaxSafetensorsHeaderBytes));
  const uint64_t length = text.size();
  char length_bytes[sizeof length];
  std::memcpy(length_bytes, &length, sizeof length);
  return std::string(length_bytes, sizeof length) + text;
}

}  // namespace

std::vector<SafetensorsInfo> sorted_as_safetensors(std::vector<SafetensorsInfo> tensors) {
  std::ranges::sort(tensors, [](const SafetensorsInfo& a, const SafetensorsInfo& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
  return tensors;
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path,
                                     std::vector<SafetensorsInfo> tensors, Links links)
    : file_(std::move(path), links), tensors_(std::move(tensors)) {
  if (const std::string what = fault(tensors_); !what.empty()) fail(what);
  file_.append(header(tensors_));
  if (!tensors_.empty()) next_bytes_ = tensors_.front().bytes();
}

void SafetensorsWriter::fail(const std::string& what) const {
  throw InternalError(path_text(file_.path()) + ": " + what);
}

void SafetensorsWriter::skip_complete() {
  while (next_ < tensors_.size() && next_bytes_ == 0)
    next_bytes_ = ++next_ < tensors_.size() ? tensors_[next_].bytes() : 0;
}

void SafetensorsWriter::append(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  skip_complete();
  if (next_ == tensors_.size())
    fail("more data for " + in_quotes(name) + "; all tensors have theirs");
  const std::string& expected = tensors_[next_].name;
  if (name != expected)
    fail("data for " + in_quotes(name) + "; expected " + std::to_string(next_bytes_) +
         " more bytes for " + in_quotes(expected));
  if (bytes.size() > static_cast<uint64_t>(next_bytes_))
    fail(std::to_string(bytes.size()) + " more bytes for " + in_quotes(name) + "; expected " +
         std::to_string(next_bytes_));
  file_.append(bytes);
  next_bytes_ -= static_cast<int64_t>(bytes.size());
}

void SafetensorsWriter::finish() {
  skip_complete();
  if (next_ < tensors_.size())
    fail("tensor " + in_quotes(tensors_[next_].name) + " lacks " + std::to_string(next_bytes_) +
         " bytes");
  file_.finish();
}

}  // namespace longshore::data
