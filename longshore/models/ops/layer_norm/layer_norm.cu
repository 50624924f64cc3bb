#include "longshore/models/ops/kernels/cuda_group.cuh"
#include "longshore/models/ops/layer_norm/layer_norm_kernels.h"

namespace longshore::models {

void launch_layer_norm(const LayerNormArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "layer_norm"));
}

void launch_layer_norm_grad(const LayerNormGradArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "layer_norm_grad"));
}

}  // namespace longshore::models
