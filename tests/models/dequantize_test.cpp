#include "longshore/models/ops/dequantize/dequantize.h"

#include <gtest/gtest.h>

#include <any>
#include <vector>

#include "longshore/base/bfloat16.h"

namespace longshore::models {
namespace {

// More than caches hold, which goes another way to memory; its edges go as less does.
TEST(Dequantize, TransposesWhatNoCacheHolds) {
  constexpr int64_t kRows = 4 * 531, kColumns = 4100;
  const QuantizedWeight weight{
      .matrix = {.format = QuantizedFormat::bfloat16, .rows = kRows, .columns = kColumns},
      .numbers = {{kColumns, kRows}, Dtype::float32},
      .is_transposed = true};
  const Type stored = quantized_type(weight);
  std::vector<uint64_t> codes(stored.bytes() / sizeof(uint64_t));
  auto* numbers = reinterpret_cast<bfloat16*>(codes.data());
  for (int64_t i = 0; i < kRows * kColumns; ++i)
    numbers[i] = to_bfloat16(static_cast<float>(i * 7919 % 65521));
  struct alignas(64) Line {
    float numbers[16];
  };
  std::vector<Line> lines(kRows * kColumns / 16 + 1);
  const float* transposed = lines[0].numbers;

  const std::any attrs = weight;
  const Ref in{codes.data(), stored}, out{lines.data(), weight.numbers};
  dequantize_op.cpu.run(
      {.target = Target::cpu, .attrs = attrs, .in = {&in, 1}, .out = {&out, 1}, .workspace = {}});
  int64_t wrong = 0;
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t column = 0; column < kColumns; ++column)
      wrong += transposed[column * kRows + row] != to_float(numbers[row * kColumns + column]);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace longshore::models
