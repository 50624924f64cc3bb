#include "longshore/models/ops/kernels/cuda_group.cuh"
#include "longshore/models/ops/rms_norm/rms_norm_kernels.h"

namespace longshore::models {

void launch_rms_norm(const RmsNormArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "rms_norm"));
}

void launch_rms_norm_grad(const RmsNormGradArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "rms_norm_grad"));
}

}  // namespace longshore::models
