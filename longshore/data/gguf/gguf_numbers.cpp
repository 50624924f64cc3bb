#include "longshore/data/gguf/gguf_numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/safetensors/safetensors_float.h"

namespace longshore::data {
namespace {

constexpr size_t kBlock = 32;
constexpr float kMost = 127;
constexpr float kMostScale = 65504;  // of float16
// What is less is rounded to that.
constexpr float kTooLargeScale = 65520;

std::string text_of(float value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

// Throws where a finite value becomes infinite.
void narrow(const std::string& tensor, std::span<const float> values, SafetensorsDtype dtype,
            std::span<std::byte> to) {
  convert_floats(
      {{.name = tensor, .dtype = SafetensorsDtype::float32, .shape = {}}, std::as_bytes(values)},
      dtype, to);
}

}  // namespace

void quantize_q8_0(std::span<const float> values, std::span<std::byte> to) {
  const size_t block_size = static_cast<size_t>(block_bytes(GgufType::q8_0));
  if (values.size() % kBlock != 0 || to.size() != values.size() / kBlock * block_size)
    throw InternalError("q8_0: no multiple of 32 values, or no room for just these");
  std::vector<float> scales;
  scales.reserve(values.size() / kBlock);
  for (size_t block = 0; block < values.size() / kBlock; ++block) {
    const std::span<const float> in_block = values.subspan(block * kBlock, kBlock);
    float largest = 0;
    for (const float value : in_block) {
      if (!std::isfinite(value))
        throw DataError("found " + text_of(value) + ", expected finite values for Q8_0");
      largest = std::max(largest, std::fabs(value));
    }
    scales.push_back(largest / kMost);
    if (scales.back() >= kTooLargeScale)
      throw DataError("found " + text_of(largest) + ", expected values of at most " +
                      text_of(kMost * kMostScale) + " in size for Q8_0");
    // Infinite for the least of subnormal scales, which float16 has as 0.
    const float by = 1 / scales.back();
    std::byte* const out = to.data() + block * block_size + sizeof(uint16_t);
    for (size_t i = 0; i < kBlock; ++i)
      out[i] = static_cast<std::byte>(
          static_cast<int8_t>(std::isfinite(by) ? std::round(in_block[i] * by) : 0.0F));
  }
  std::vector<std::byte> narrowed(scales.size() * sizeof(uint16_t));
  narrow("", scales, SafetensorsDtype::float16, narrowed);
  for (size_t block = 0; block < scales.size(); ++block)
    std::memcpy(to.data() + block * block_size, narrowed.data() + block * sizeof(uint16_t),
                sizeof(uint16_t));
}

std::span<const std::byte> GgufNumbers::convert_blocks(std::span<const float> values) {
  std::span<const float> all = values;
  if (!waiting_.empty()) {
    waiting_.insert(waiting_.end(), values.begin(), values.end());
    all = waiting_;
  }
  const size_t whole = all.size() / kBlock * kBlock;
  bytes_.resize(whole / kBlock * static_cast<size_t>(block_bytes(type_)));
  try {
    quantize_q8_0(all.first(whole), bytes_);
  } catch (const DataError& error) {
    throw DataError("tensor " + in_quotes(tensor_) + ": " + error.what());
  }
  waiting_ = std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(whole), all.end());
  return bytes_;
}

std::span<const std::byte> GgufNumbers::convert(std::span<const float> values) {
  if (type_ == GgufType::float32) return std::as_bytes(values);
  if (type_ == GgufType::q8_0) return convert_blocks(values);
  bytes_.resize(values.size() * static_cast<size_t>(block_bytes(type_)));
  narrow(tensor_, values,
         type_ == GgufType::float16 ? SafetensorsDtype::float16 : SafetensorsDtype::bfloat16,
         bytes_);
  return bytes_;
}

}  // namespace longshore::data
