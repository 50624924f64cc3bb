#include "data/safetensors/mxfp4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "data/safetensors/expect_tensor.h"

namespace longshore::data {
namespace {

constexpr int64_t kBlock = 32;  // numbers, two in a byte

// By sign and magnitude.
constexpr std::array<float, 16> kNumbers{0,    .5f,  1,  1.5f,  2,  3,  4,  6,
                                         -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};

const std::array<float, 256>& powers() {
  static const std::array<float, 256> all = [] {
    std::array<float, 256> powers{};
    for (int scale = 0; scale < 255; ++scale) powers[scale] = std::ldexp(1.f, scale - 127);
    powers[255] = std::numeric_limits<float>::quiet_NaN();
    return powers;
  }();
  return all;
}

}  // namespace

Mxfp4Tensor::Mxfp4Tensor(const SafetensorsTensor& blocks, const SafetensorsTensor& scales)
    : blocks_(blocks.data), scales_(scales.data) {
  expect_tensor(blocks.dtype == SafetensorsDtype::uint8 && blocks.shape.size() == 4 &&
                    blocks.shape[3] == kBlock / 2,
                blocks, "U8 [experts,rows,blocks,16]");
  std::vector<int64_t> shape(blocks.shape.begin(), blocks.shape.end() - 1);
  expect_tensor(scales.dtype == SafetensorsDtype::uint8 && scales.shape == shape, scales,
                "U8, a scale for each block of " + in_quotes(blocks.name));
  info_ = {.name = blocks.name.substr(0, blocks.name.rfind(kMxfp4Blocks)),
           .dtype = SafetensorsDtype::bfloat16,
           .shape = {shape[0], shape[2] * kBlock, shape[1]}};
}

NonFinite Mxfp4Tensor::to_float32(int64_t first, std::span<float> to, int64_t step) const {
  const int64_t k_size = info_.shape[1], n_size = info_.shape[2], blocks = k_size / kBlock;
  const int64_t count = std::ssize(to);
  if (first < 0 || step < 1 || (count > 0 && first + (count - 1) * step >= info_.element_count()))
    throw InternalError("tensor " + in_quotes(info_.name) + ": elements beyond its end");
  NonFinite odd;
  for (int64_t i = 0; i < count;) {
    const int64_t at = first + i * step, expert = at / (k_size * n_size), k = at / n_size % k_size;
    // The elements of one k, a row of blocks apart.
    const std::byte* const block = blocks_.data() + expert * n_size * k_size / 2 + k / 2;
    const std::byte* const scale = scales_.data() + expert * n_size * blocks + k / kBlock;
    const int shift = k % 2 == 0 ? 0 : 4;
    for (int64_t n = at % n_size; n < n_size && i < count; n += step, ++i) {
      const auto bits = std::to_integer<unsigned>(block[n * k_size / 2]) >> shift & 15;
      to[i] = kNumbers[bits] * powers()[std::to_integer<unsigned>(scale[n * blocks])];
      odd.nan_count += std::isnan(to[i]);
      odd.infinity_count += std::isinf(to[i]);
    }
  }
  return odd;
}

}  // namespace longshore::data
