#include "longshore/models/ops/kernels/cuda_group.cuh"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy_body.h"

namespace longshore::models {

void launch_cross_entropy_rows(const CrossEntropyRowsArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "linear_cross_entropy, rows"));
}

void launch_total_loss(const TotalLossArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "linear_cross_entropy, total"));
}

}  // namespace longshore::models
