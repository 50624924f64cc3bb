#include "longshore/models/ops/grouped_bias/grouped_bias_kernels.h"
#include "longshore/models/ops/kernels/cuda_group.cuh"

namespace longshore::models {

void launch_add_grouped_bias(const GroupedBiasArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "add_grouped_bias"));
}

void launch_add_grouped_bias_grad(const GroupedBiasGradArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "add_grouped_bias_grad"));
}

}  // namespace longshore::models
