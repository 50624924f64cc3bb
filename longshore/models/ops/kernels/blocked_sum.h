// Sums over all elements of a value on the CPU. Blocks of elements are summed apart and the blocks'
// sums are added in order, so that the result does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <any>
#include <cstddef>
#include <cstdint>
#include <span>

#include "longshore/base/round_up.h"
#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {

inline constexpr int64_t kSumBlock = 1 << 16;  // elements

inline int64_t sum_blocks(int64_t count) { return ceil_div(count, kSumBlock); }

// What blocked_sum needs for the elements of input `kInput`.
template <int kInput>
int64_t workspace_blocked_sum(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return sum_blocks(in[kInput].shape.count()) * size_bytes(Dtype::float64);
}

// The sum of sum_block(begin, size) over the blocks of [0, count).
template <class F>
double blocked_sum(std::span<std::byte> workspace, int64_t count, F sum_block) {
  double* partial = reinterpret_cast<double*>(workspace.data());
  parallel_ranges(sum_blocks(count), [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block)
      partial[block] = sum_block(block * kSumBlock, std::min(kSumBlock, count - block * kSumBlock));
  });
  double sum = 0;
  for (int64_t block = 0; block < sum_blocks(count); ++block) sum += partial[block];
  return sum;
}

}  // namespace longshore::models
