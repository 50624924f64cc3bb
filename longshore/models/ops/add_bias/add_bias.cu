#include "longshore/models/ops/add_bias/add_bias_kernels.h"
#include "longshore/models/ops/kernels/cuda_group.cuh"

namespace longshore::models {

void launch_add_bias_grad(const AddBiasGradArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "add_bias_grad"));
}

}  // namespace longshore::models
