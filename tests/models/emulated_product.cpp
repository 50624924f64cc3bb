#include "tests/models/emulated_product.h"

#include <ATen/ops/mm.h>
#include <gtest/gtest.h>

#include "longshore/models/ops/kernels/aten.h"

namespace longshore::models {

void emulate_product(const Matmuls& matmuls, const void* a, const void* b, const void* sum, void* c,
                     std::span<std::byte> workspace, void*) {
  const Matmul& matmul = matmuls.matmul;
  EXPECT_GE(std::ssize(workspace), cublaslt_workspace_bytes(matmuls));
  const ColumnMajorProduct product = column_major(matmuls);
  for (int64_t i = 0; i < matmuls.count; ++i) {
    auto matrix = [&](const void* data, const ColumnMajor& stored, Dtype dtype) {
      auto* begin = static_cast<const std::byte*>(data) + i * stored.next * size_bytes(dtype);
      return at::from_blob(const_cast<std::byte*>(begin), {stored.rows, stored.columns},
                           {1, stored.stride}, at::TensorOptions(scalar_type(dtype)));
    };
    auto operand = [&](const void* data, const ColumnMajor& stored, bool transpose) {
      const at::Tensor as_stored = matrix(data, stored, matmul.ab).to(at::kFloat);
      return transpose ? as_stored.t() : as_stored;
    };
    at::Tensor out = at::mm(operand(b, product.first, product.transpose_first),
                            operand(a, product.second, product.transpose_second));
    if (matmul.into == Into::add) out.add_(matrix(sum, product.out, matmul.c));
    matrix(c, product.out, matmul.c).copy_(out);
  }
}

}  // namespace longshore::models
