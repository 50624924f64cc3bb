// Our custom kernels of layer_norm on a GPU. x, weight, bias and what is made of x are float32 or
// bfloat16, statistics and weights' gradients float32.
#pragma once

#include "models/ir/op.h"

namespace longshore::models {

struct LayerNormArguments {
  Dtype dtype;
  int64_t rows, width;
  const void *x, *weight, *bias;
  float epsilon;
  void* y;
  float *mean, *rstd;  // one for each row
};

struct LayerNormGradArguments {
  Dtype dtype;
  int64_t rows, width;
  const void *dy, *x, *weight;
  const float *mean, *rstd;
  const void* input_sum;  // null where there is none
  void* dx;
  // All three null where the weight has no gradient, weight_sum also where there is none yet.
  float* partials;  // norm_partials(rows) rows
  const float* weight_sum;
  float* dweight;
};

LayerNormArguments layer_norm_arguments(const KernelCall& call);
LayerNormGradArguments layer_norm_grad_arguments(const KernelCall& call);

// Into a cudaStream_t; throw Error when the launch fails.
void launch_layer_norm(const LayerNormArguments& arguments, void* stream);
void launch_layer_norm_grad(const LayerNormGradArguments& arguments, void* stream);

}  // namespace longshore::models
