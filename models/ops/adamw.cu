#include "models/ops/adamw_body.h"
#include "models/ops/cuda_group.cuh"

namespace longshore::models {

void launch_adamw(const AdamWArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "adamw"));
}

}  // namespace longshore::models
