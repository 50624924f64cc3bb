#include "longshore/models/ops/kernels/cuda_group.cuh"
#include "longshore/models/ops/router/router_kernels.h"

namespace longshore::models {

void launch_router(const RouterArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "router"));
}

void launch_router_grad(const RouterGradArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "router_grad"));
}

}  // namespace longshore::models
