#include "data/safetensors_float.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "base/error.h"
#include "data/strict_json.h"

namespace longshore::data {
namespace {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

float widened(float value) { return value; }
float widened(double value) { return static_cast<float>(value); }
float widened(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Rebiases the exponent (F. Giesen, "half_to_float_fast5"'s relative without denormal inputs, so
// that it holds when the processor takes denormals for zero).
float widened(Float16 value) {
  constexpr uint32_t kExponent = 0x7c00u << 13;
  const uint32_t shifted = (value.bits & 0x7fffu) << 13;
  const uint32_t exponent = shifted & kExponent;
  const uint32_t rebiased = shifted + ((127 - 15) << 23);
  const float subnormal =
      std::bit_cast<float>(rebiased + (1 << 23)) - std::bit_cast<float>(113u << 23);
  uint32_t bits = exponent == kExponent ? rebiased + ((128 - 16) << 23) : rebiased;
  bits = exponent == 0 ? std::bit_cast<uint32_t>(subnormal) : bits;
  return std::bit_cast<float>(bits | (value.bits & 0x8000u) << 16);
}

// The data need not be aligned, hence memcpy.
template <typename Stored>
NonFinite convert(const std::byte* from, std::span<float> to) {
  constexpr size_t kBlock = 4096;  // counts of a block are 32 bits wide, as the values are
  NonFinite found;
  for (size_t first = 0; first < to.size(); first += kBlock) {
    const size_t end = std::min(first + kBlock, to.size());
    uint32_t nan_count = 0, infinity_count = 0;
    for (size_t i = first; i < end; ++i) {
      Stored stored;
      std::memcpy(&stored, from + i * sizeof stored, sizeof stored);
      to[i] = widened(stored);
      const uint32_t magnitude = std::bit_cast<uint32_t>(to[i]) & 0x7fffffff;
      nan_count += magnitude > 0x7f800000;
      infinity_count += magnitude == 0x7f800000;
    }
    found.nan_count += nan_count;
    found.infinity_count += infinity_count;
  }
  return found;
}

}  // namespace

NonFinite to_float32(const SafetensorsTensor& tensor, std::span<float> to) {
  const size_t count = tensor.data.size() / static_cast<size_t>(size_bytes(tensor.dtype));
  if (to.size() != count)
    throw InternalError("tensor " + json_quoted(tensor.name) + ": " + std::to_string(count) +
                        " elements, room for " + std::to_string(to.size()));
  switch (tensor.dtype) {
    case SafetensorsDtype::float32:
      return convert<float>(tensor.data.data(), to);
    case SafetensorsDtype::float64:
      return convert<double>(tensor.data.data(), to);
    case SafetensorsDtype::bfloat16:
      return convert<BFloat16>(tensor.data.data(), to);
    case SafetensorsDtype::float16:
      return convert<Float16>(tensor.data.data(), to);
    default:
      throw DataError("tensor " + json_quoted(tensor.name) + ": found " + name(tensor.dtype) +
                      ", expected F32, BF16, F16 or F64");
  }
}

}  // namespace longshore::data
