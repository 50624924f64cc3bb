// Matrix products on GPUs by cuBLASLt, with its workspace in memory of ours: C = A·B [+ sum].
//
// Of the algorithms that cuBLASLt offers for a description, its first that fits our workspace is
// taken and kept: it does not depend on timings, and it adds split sums in float32 in a fixed
// order. So the same description gives the same bits on the same kind of GPU.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "models/ops/matmul.h"

namespace longshore::models {

// A stored matrix as cuBLASLt sees it: columns are adjacent, `stride` elements apart.
struct ColumnMajor {
  int64_t rows, columns, stride;

  auto operator<=>(const ColumnMajor&) const = default;
};

// C transposed, which in memory is the same as C by rows: op(first) · op(second).
struct ColumnMajorProduct {
  ColumnMajor first, second, out;  // B, A and C
  bool transpose_first, transpose_second;
};

ColumnMajorProduct column_major(const Matmul& matmul);

// Known without a GPU.
int64_t cublaslt_workspace_bytes(const Matmul& matmul);

// `sum`, of C's type, is read where matmul.into is `add`, and may be `c`. `stream` is a
// cudaStream_t. Throws Error.
void run_cublaslt(const Matmul& matmul, const void* a, const void* b, const void* sum, void* c,
                  std::span<std::byte> workspace, void* stream);

// What that is to kernels, which tests run without a GPU.
using RunProduct = void (*)(const Matmul& matmul, const void* a, const void* b, const void* sum,
                            void* c, std::span<std::byte> workspace, void* stream);

}  // namespace longshore::models
