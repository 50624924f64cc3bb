#include "longshore/data/gguf/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/round_up.h"
#include "longshore/base/utf8.h"

namespace longshore::data {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kVersion = 3;
constexpr size_t kMaxKeyBytes = 65535;

template <class Number>
void put(Number number, std::string& to) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  to.append(bytes, sizeof number);
}

void put_text(std::string_view text, std::string& to) {
  put(uint64_t{text.size()}, to);
  to += text;
}

// What the file calls the types of values.
enum ValueType : uint32_t {
  value_uint32 = 4,
  value_int32 = 5,
  value_float32 = 6,
  value_bool = 7,
  value_text = 8,
  value_list = 9
};
template <class T>
constexpr ValueType type_of() {
  if constexpr (std::is_same_v<T, uint32_t>) return value_uint32;
  if constexpr (std::is_same_v<T, int32_t>) return value_int32;
  if constexpr (std::is_same_v<T, float>) return value_float32;
  if constexpr (std::is_same_v<T, bool>) return value_bool;
  return value_text;
}

template <class T>
void put_value(const T& value, std::string& to) {
  if constexpr (std::is_same_v<T, std::string>)
    put_text(value, to);
  else if constexpr (std::is_same_v<T, bool>)
    put(uint8_t{value}, to);
  else
    put(value, to);
}

template <class T>
void put_typed(const T& value, std::string& to) {
  put(uint32_t{type_of<T>()}, to);
  put_value(value, to);
}
template <class T>
void put_typed(const std::vector<T>& values, std::string& to) {
  put(uint32_t{value_list}, to);
  put(uint32_t{type_of<T>()}, to);
  put(uint64_t{values.size()}, to);
  for (const auto& value : values) put_value<T>(value, to);
}

uint32_t number_of(GgufType type) {
  switch (type) {
    case GgufType::float32:
      return 0;
    case GgufType::float16:
      return 1;
    case GgufType::q8_0:
      return 8;
    case GgufType::bfloat16:
      return 30;
  }
  throw InternalError("no such type of GGUF");
}

// Why these cannot stand in one file, or "".
std::string fault(std::span<const GgufEntry> entries, std::span<const GgufTensorInfo> tensors) {
  std::set<std::string_view> keys, names;
  auto is_name = [](std::string_view text, size_t most) {
    return !text.empty() && text.size() <= most && valid_utf8_prefix(text) == text.size();
  };
  for (const GgufEntry& entry : entries)
    if (!is_name(entry.key, kMaxKeyBytes) || !keys.insert(entry.key).second)
      return "key " + in_quotes(entry.key) + ": found twice, or is none";
  for (const GgufTensorInfo& tensor : tensors) {
    const std::string here = "tensor " + in_quotes(tensor.name);
    if (!is_name(tensor.name, kMaxGgufNameBytes)) return here + ": its name is none";
    if (!names.insert(tensor.name).second) return here + ": found twice, expected once";
    if (tensor.shape.empty() || tensor.shape.size() > kMaxGgufRank)
      return here + ": " + std::to_string(tensor.shape.size()) + " dimensions, expected 1 to " +
             std::to_string(kMaxGgufRank);
    if (std::ranges::any_of(tensor.shape, [](int64_t size) { return size < 1; }))
      return here + ": has no elements";
    if (tensor.shape.back() % block_elements(tensor.type) != 0)
      return here + ": rows of " + std::to_string(tensor.shape.back()) + " are no whole blocks";
  }
  return "";
}

int64_t padded(int64_t bytes) { return round_up(bytes, kGgufAlignment); }

std::string head(std::span<const GgufEntry> entries, std::span<const GgufTensorInfo> tensors) {
  std::string text = "GGUF";
  put(kVersion, text);
  put(uint64_t{tensors.size()}, text);
  put(uint64_t{entries.size()}, text);
  for (const GgufEntry& entry : entries) {
    put_text(entry.key, text);
    std::visit([&](const auto& value) { put_typed(value, text); }, entry.value);
  }
  int64_t offset = 0;
  for (const GgufTensorInfo& tensor : tensors) {
    put_text(tensor.name, text);
    put(static_cast<uint32_t>(tensor.shape.size()), text);
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      put(static_cast<uint64_t>(*size), text);
    put(number_of(tensor.type), text);
    put(static_cast<uint64_t>(offset), text);
    if (__builtin_add_overflow(offset, padded(tensor.bytes()), &offset))
      throw InternalError("tensor " + in_quotes(tensor.name) + ": data beyond 2^63 - 1 bytes");
  }
  text.resize(static_cast<size_t>(padded(std::ssize(text))), '\0');
  return text;
}

}  // namespace

GgufWriter::GgufWriter(std::filesystem::path path, std::span<const GgufEntry> entries,
                       std::vector<GgufTensorInfo> tensors)
    : file_(std::move(path)), tensors_(std::move(tensors)) {
  if (const std::string what = fault(entries, tensors_); !what.empty()) fail(what);
  file_.append(head(entries, tensors_));
  if (!tensors_.empty()) next_bytes_ = tensors_.front().bytes();
}

void GgufWriter::fail(const std::string& what) const {
  throw InternalError(path_text(file_.path()) + ": " + what);
}

void GgufWriter::append(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (next_ == tensors_.size())
    fail("more data for " + in_quotes(name) + "; all tensors have theirs");
  const GgufTensorInfo& tensor = tensors_[next_];
  if (name != tensor.name || bytes.size() > static_cast<uint64_t>(next_bytes_))
    fail(std::to_string(bytes.size()) + " bytes for " + in_quotes(name) + "; expected " +
         std::to_string(next_bytes_) + " more for " + in_quotes(tensor.name));
  file_.append(bytes);
  next_bytes_ -= static_cast<int64_t>(bytes.size());
  if (next_bytes_ > 0) return;
  const std::vector<std::byte> zeros(static_cast<size_t>(padded(tensor.bytes()) - tensor.bytes()));
  file_.append(zeros);
  if (++next_ < tensors_.size()) next_bytes_ = tensors_[next_].bytes();
}

void GgufWriter::finish() {
  if (next_ < tensors_.size())
    fail("tensor " + in_quotes(tensors_[next_].name) + " lacks " + std::to_string(next_bytes_) +
         " bytes");
  file_.finish();
}

}  // namespace longshore::data
