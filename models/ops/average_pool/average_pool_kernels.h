// Our custom kernels of average_pool on a GPU.
#pragma once

#include "models/ir/op.h"

namespace longshore::models {

// Squares of side*side rows, and of (side/window)² windows.
struct AveragePoolArguments {
  Dtype dtype;  // float32 or bfloat16
  int64_t squares, side, window, width;
  const void* x;
  void* y;
};

struct AveragePoolGradArguments {
  Dtype dtype;
  int64_t squares, side, window, width;
  const void* dy;
  const void* input_sum;  // null where there is none yet; may be dx
  void* dx;
};

AveragePoolArguments average_pool_arguments(const KernelCall& call);
AveragePoolGradArguments average_pool_grad_arguments(const KernelCall& call);

// Into a cudaStream_t; throw Error when the launch fails.
void launch_average_pool(const AveragePoolArguments& arguments, void* stream);
void launch_average_pool_grad(const AveragePoolGradArguments& arguments, void* stream);

}  // namespace longshore::models
