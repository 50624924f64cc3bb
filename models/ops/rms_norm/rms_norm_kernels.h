// Our custom kernels of rms_norm on a GPU. Rows are runs of `width` elements, as rms_norm.h has
// them; x, weight and what is made of x are float32 or bfloat16, statistics and weights' gradients
// float32.
#pragma once

#include "models/ir/op.h"

namespace longshore::models {

struct RmsNormArguments {
  Dtype dtype;
  int64_t rows, width;
  const void *x, *weight;
  float weight_offset, epsilon;
  void* y;
  float* rstd;  // one for each row
};

struct RmsNormGradArguments {
  Dtype dtype;
  int64_t rows, width;
  const void *dy, *x, *weight;
  float weight_offset;
  const float* rstd;
  const void* input_sum;  // null where there is none
  void* dx;
  // All three null where the weight has no gradient, weight_sum also where there is none yet.
  float* partials;  // norm_partials(rows) rows
  const float* weight_sum;
  float* dweight;
};

RmsNormArguments rms_norm_arguments(const KernelCall& call);
RmsNormGradArguments rms_norm_grad_arguments(const KernelCall& call);

// Into a cudaStream_t; throw Error when the launch fails.
void launch_rms_norm(const RmsNormArguments& arguments, void* stream);
void launch_rms_norm_grad(const RmsNormGradArguments& arguments, void* stream);

}  // namespace longshore::models
