#include "longshore/models/ops/kernels/cuda_group.cuh"
#include "longshore/models/ops/rope/rope_kernels.h"

namespace longshore::models {

void launch_rope_table(const RopeTableArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "rope_table"));
}

void launch_rope(const RopeArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "rope"));
}

}  // namespace longshore::models
