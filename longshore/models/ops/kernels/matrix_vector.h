// The product of a matrix and one vector on the CPU: what a linear layer is for a single token.
// Nothing of the matrix is used twice, so that memory is the limit; a matrix product's blocks and
// copies would only be in the way.
#pragma once

#include <cstdint>

#include "longshore/models/ops/kernels/matmul.h"

namespace longshore::models {

// y[n] = W x, or y += W x, for W [n,k] and x [k] of one dtype, float32 or bfloat16; sums are
// float32 and rounded once. The result does not depend on the number of threads.
void matrix_vector(int64_t n, int64_t k, Dtype dtype, const void* w, const void* x, void* y,
                   Into into);

// For a matrix whose rows are made as they are used, by one thread: sums[r] += the product of x and
// `count` elements of row r, for kProductRows rows `stride` apart.
inline constexpr int64_t kProductRows = 4;
void add_products(int64_t count, const float* rows, int64_t stride, const float* x, float* sums);

}  // namespace longshore::models
