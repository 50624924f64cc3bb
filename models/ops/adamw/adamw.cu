#include "models/ops/adamw/adamw_body.h"
#include "models/ops/kernels/cuda_group.cuh"

namespace longshore::models {

void launch_adamw(const AdamWArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "adamw"));
}

}  // namespace longshore::models
