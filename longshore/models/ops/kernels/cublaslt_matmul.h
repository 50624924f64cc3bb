// Matrix products on GPUs by cuBLASLt, with its workspace in memory of ours: C = A·B [+ sum], one
// or several of a shape at once.
//
// Of the algorithms that cuBLASLt offers for a description and that fit our workspace, one is taken
// and kept by a rule that does not depend on timings, and it adds split sums in float32 in a fixed
// order. So the same description gives the same bits on the same kind of GPU.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "longshore/models/ops/kernels/matmul.h"

namespace longshore::models {

// How the matrices of several products lie, in elements: rows are `row` apart, and one product's
// matrix `next` from that of the product before it.
struct Stride {
  int64_t row, next;

  auto operator<=>(const Stride&) const = default;
};

struct Matmuls {
  Matmul matmul;
  int64_t count;
  Stride a, b, c;  // the sum lies as C does

  // One, whose rows are adjacent.
  Matmuls(const Matmul& matmul);
  Matmuls(const Matmul& matmul, int64_t count, Stride a, Stride b, Stride c);

  auto operator<=>(const Matmuls&) const = default;
};

// Stored matrices as cuBLASLt sees them: columns are `stride` elements apart, matrices `next`.
struct ColumnMajor {
  int64_t rows, columns, stride, next;
};

// C transposed, which in memory is the same as C by rows: op(first) · op(second).
struct ColumnMajorProduct {
  ColumnMajor first, second, out;  // B, A and C
  bool transpose_first, transpose_second;
};

ColumnMajorProduct column_major(const Matmuls& matmuls);

// Known without a GPU.
int64_t cublaslt_workspace_bytes(const Matmuls& matmuls);

// `sum`, of C's type, is read where `into` is `add`, and may be `c`. `stream` is a
// cudaStream_t. Throws Error.
void run_cublaslt(const Matmuls& matmuls, const void* a, const void* b, const void* sum, void* c,
                  std::span<std::byte> workspace, void* stream);

// What that is to kernels, which tests run without a GPU.
using RunProduct = void (*)(const Matmuls& matmuls, const void* a, const void* b, const void* sum,
                            void* c, std::span<std::byte> workspace, void* stream);

}  // namespace longshore::models
