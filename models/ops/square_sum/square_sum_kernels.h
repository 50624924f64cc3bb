// Our own GPU kernels for the global gradient norm.
#pragma once

#include "models/ir/op.h"

namespace longshore::models {

// Ranges that are summed apart, and then together: of 2^16 elements, or of more where that would
// be very many.
inline int64_t square_sum_partials(int64_t count) {
  const int64_t partials = (count + (1 << 16) - 1) >> 16;
  return partials < 4096 ? partials : 4096;
}

struct SquareSumArguments {
  int64_t count;
  const float* x;
  double* partials;  // [square_sum_partials(count)]
  double* result;    // a scalar
};

struct SumInOrderArguments {
  int64_t count;
  const double* x;
  double* result;
};

struct ClipArguments {
  int64_t count;
  const double* square_sums;
  double threshold;
  float *factor, *norm;
};

SquareSumArguments square_sum_arguments(const KernelCall& call);
SumInOrderArguments sum_in_order_arguments(const KernelCall& call);
ClipArguments clip_arguments(const KernelCall& call);

// Into a cudaStream_t; throw Error when the launch fails.
void launch_square_sum(const SquareSumArguments& arguments, void* stream);
void launch_sum_in_order(const SumInOrderArguments& arguments, void* stream);
void launch_clip(const ClipArguments& arguments, void* stream);

}  // namespace longshore::models
