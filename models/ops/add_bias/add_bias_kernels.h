// Our custom kernel on a GPU of a bias's gradient.
#pragma once

#include "models/ir/op.h"

namespace longshore::models {

struct AddBiasGradArguments {
  Dtype dtype;  // of dy: float32 or bfloat16
  int64_t rows, width;
  const void* dy;
  float* partials;      // [add_bias_partials(rows), width]
  const float* so_far;  // null where there is no sum yet; may be dbias
  float* dbias;         // [width]
};

// Ranges of rows that are summed apart, then together in order.
inline int64_t add_bias_partials(int64_t rows) { return rows < 64 ? rows : 64; }

AddBiasGradArguments add_bias_grad_arguments(const KernelCall& call);
// Into a cudaStream_t; throws Error when the launch fails.
void launch_add_bias_grad(const AddBiasGradArguments& arguments, void* stream);

}  // namespace longshore::models
