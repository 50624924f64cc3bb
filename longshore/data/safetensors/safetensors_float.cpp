#include "longshore/data/safetensors/safetensors_float.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "longshore/base/bfloat16.h"
#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/round_up.h"

namespace longshore::data {
namespace {

struct Float16 {
  uint16_t bits;
};

float widened(float value) { return value; }
float widened(double value) { return static_cast<float>(value); }
float widened(bfloat16 value) { return to_float(value); }

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

// The way back, to nearest with ties to even (F. Giesen, "float_to_half_fast3_rtne").
Float16 narrowed(float value) {
  constexpr uint32_t kHalf = 126u << 23;                // 0.5, whose last bit is 2^-24
  constexpr uint32_t kLeastNormal = (127u - 14) << 23;  // 2^-14
  constexpr uint32_t kBeyond = (127u + 16) << 23;       // 2^16
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half;
  if (magnitude > 0x7f800000)
    half = 0x7e00 | (magnitude >> 13 & 0x3ff);
  else if (magnitude >= kBeyond)
    half = 0x7c00;
  else if (magnitude < kLeastNormal)
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - kHalf;
  else
    half = (magnitude - ((127u - 15) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  return {static_cast<uint16_t>(half | (bits >> 16 & 0x8000))};
}

// The data need not be aligned, hence memcpy.
template <typename Stored>
NonFinite convert(const std::byte* from, size_t step, std::span<float> to) {
  constexpr size_t kBlock = 4096;  // counts of a block are 32 bits wide, as the values are
  NonFinite found;
  for (size_t first = 0; first < to.size(); first += kBlock) {
    const size_t end = std::min(first + kBlock, to.size());
    uint32_t nan_count = 0, infinity_count = 0;
    for (size_t i = first; i < end; ++i) {
      Stored stored;
      std::memcpy(&stored, from + i * step * sizeof stored, sizeof stored);
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

// How many of them are infinite.
int64_t narrow(std::span<const float> from, SafetensorsDtype dtype, std::byte* to) {
  int64_t infinity_count = 0;
  const size_t stride = static_cast<size_t>(size_bytes(dtype));
  for (size_t i = 0; i < from.size(); ++i) {
    const uint16_t bits =
        dtype == SafetensorsDtype::bfloat16 ? to_bfloat16(from[i]).bits : narrowed(from[i]).bits;
    const uint16_t infinity = dtype == SafetensorsDtype::bfloat16 ? 0x7f80 : 0x7c00;
    infinity_count += (bits & 0x7fff) == infinity;
    std::memcpy(to + i * stride, &bits, stride);
  }
  return infinity_count;
}

int64_t infinities_of_doubles(std::span<const std::byte> data) {
  int64_t count = 0;
  for (size_t i = 0; i < data.size(); i += sizeof(double)) {
    double value;
    std::memcpy(&value, data.data() + i, sizeof value);
    count += std::isinf(value);
  }
  return count;
}

// `exponent` has the bits that are all set where a value is not finite.
template <class Bits>
bool all_finite(std::span<const std::byte> data, Bits exponent) {
  unsigned odd = 0;
  for (size_t i = 0; i < data.size(); i += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, data.data() + i, sizeof bits);
    odd |= (bits & exponent) == exponent;
  }
  return odd == 0;
}

}  // namespace

NonFinite to_float32(const SafetensorsTensor& tensor, std::span<float> to) {
  const size_t count = tensor.data.size() / static_cast<size_t>(size_bytes(tensor.dtype));
  if (to.size() != count)
    throw InternalError("tensor " + in_quotes(tensor.name) + ": " + std::to_string(count) +
                        " elements, room for " + std::to_string(to.size()));
  return to_float32(tensor, 0, to);
}

NonFinite to_float32(const SafetensorsTensor& tensor, int64_t first, std::span<float> to,
                     int64_t step) {
  const size_t size = static_cast<size_t>(size_bytes(tensor.dtype)),
               begin = static_cast<size_t>(first), stride = static_cast<size_t>(step);
  const size_t count = tensor.data.size() / size;
  if (first < 0 || step < 1 || begin > count || to.size() > ceil_div(count - begin, stride))
    throw InternalError("tensor " + in_quotes(tensor.name) + ": " + std::to_string(to.size()) +
                        " elements from " + std::to_string(first) + " on, each " +
                        std::to_string(step) + "th, of " + std::to_string(count));
  if (to.empty()) return {};
  const std::byte* from = tensor.data.data() + begin * size;
  // A step that the compiler knows makes vectors of the loop.
  auto converted = [&]<class Stored>(Stored) {
    return stride == 1 ? convert<Stored>(from, 1, to) : convert<Stored>(from, stride, to);
  };
  switch (tensor.dtype) {
    case SafetensorsDtype::float32:
      return converted(float{});
    case SafetensorsDtype::float64:
      return converted(double{});
    case SafetensorsDtype::bfloat16:
      return converted(bfloat16{});
    case SafetensorsDtype::float16:
      return converted(Float16{});
    default:
      throw DataError("tensor " + in_quotes(tensor.name) + ": found " + name(tensor.dtype) +
                      ", expected F32, BF16, F16 or F64");
  }
}

void convert_floats(const SafetensorsTensor& tensor, SafetensorsDtype dtype,
                    std::span<std::byte> to) {
  const size_t from_bytes = static_cast<size_t>(size_bytes(tensor.dtype));
  const size_t to_bytes = static_cast<size_t>(size_bytes(dtype));
  const size_t count = tensor.data.size() / from_bytes;
  if (to.size() != count * to_bytes)
    throw InternalError("tensor " + in_quotes(tensor.name) + ": " + std::to_string(count) +
                        " elements, room for " + std::to_string(to.size() / to_bytes));
  constexpr size_t kBlock = size_t{1} << 16;
  std::vector<float> values(std::min(kBlock, count));
  SafetensorsTensor block = tensor;
  int64_t infinities_before = 0, infinities_after = 0;
  for (size_t first = 0; first < count; first += kBlock) {
    const std::span<float> part = std::span(values).first(std::min(kBlock, count - first));
    block.data = tensor.data.subspan(first * from_bytes, part.size() * from_bytes);
    const int64_t infinities = to_float32(block, part).infinity_count;
    infinities_before +=
        tensor.dtype == SafetensorsDtype::float64 ? infinities_of_doubles(block.data) : infinities;
    std::byte* const out = to.data() + first * to_bytes;
    if (dtype == SafetensorsDtype::float32) {
      std::memcpy(out, part.data(), part.size_bytes());
      infinities_after += infinities;
    } else {
      infinities_after += narrow(part, dtype, out);
    }
  }
  if (infinities_after > infinities_before)
    throw DataError("tensor " + in_quotes(tensor.name) + ": found finite " + name(tensor.dtype) +
                    " values beyond what " + name(dtype) + " can hold, expected none");
}

void require_finite(const SafetensorsTensor& tensor) {
  bool is_finite = true;
  if (tensor.dtype == SafetensorsDtype::float32)
    is_finite = all_finite<uint32_t>(tensor.data, 0x7f800000);
  else if (tensor.dtype == SafetensorsDtype::bfloat16)
    is_finite = all_finite<uint16_t>(tensor.data, 0x7f80);
  if (!is_finite)
    throw DataError("tensor " + in_quotes(tensor.name) +
                    ": found values that are infinite or NaN, expected finite ones");
}

}  // namespace longshore::data
