#include "longshore/models/ops/dropout/dropout_kernels.h"
#include "longshore/models/ops/kernels/cuda_group.cuh"

namespace longshore::models {

void launch_dropout(const DropoutArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "dropout"));
}

}  // namespace longshore::models
