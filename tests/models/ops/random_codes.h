// Weights in few bits for the cases of ops that read them.
#pragma once

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <span>

#include "longshore/base/quantization/quantize.h"
#include "longshore/models/ops/dequantize/dequantize.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {

struct Stored {
  QuantizedMatrix matrix;
  int64_t matrices = 1;
  bool is_transposed = false;
};

inline QuantizedWeight weight_of(const Stored& stored, Dtype dtype) {
  const auto& [matrix, matrices, is_transposed] = stored;
  const int64_t n = is_transposed ? matrix.columns : matrix.rows,
                k = is_transposed ? matrix.rows : matrix.columns;
  return {.matrix = matrix,
          .numbers = {matrices == 1 ? Shape{n, k} : Shape{matrices, n, k}, dtype},
          .is_transposed = is_transposed};
}

// Codes and scales of random numbers.
inline at::Tensor random_codes(const Stored& stored) {
  const QuantizedMatrix& matrix = stored.matrix;
  const Type type = quantized_type(weight_of(stored, Dtype::float32));
  at::Tensor bytes = at::zeros(type.shape.sizes(), at::kByte);
  const int64_t rows = matrix.first_row + matrix.rows + 3;  // of the tensor
  auto* to = reinterpret_cast<std::byte*>(bytes.data_ptr());
  for (int64_t i = 0; i < stored.matrices; ++i, to += type.shape.back()) {
    const at::Tensor numbers =
        random_normal({{rows * matrix.columns}, Dtype::float32}, static_cast<uint64_t>(i + 1));
    quantize(
        matrix, rows,
        [&](int64_t first, std::span<float> some) {
          std::copy_n(numbers.data_ptr<float>() + first, some.size(), some.begin());
        },
        [&](int64_t offset, std::span<const std::byte> some) {
          std::ranges::copy(some, to + offset);
        });
  }
  return bytes;
}

}  // namespace longshore::models
