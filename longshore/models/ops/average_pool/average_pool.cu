#include "longshore/models/ops/average_pool/average_pool_kernels.h"
#include "longshore/models/ops/kernels/cuda_group.cuh"

namespace longshore::models {

void launch_average_pool(const AveragePoolArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "average_pool"));
}

void launch_average_pool_grad(const AveragePoolGradArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "average_pool_grad"));
}

}  // namespace longshore::models
