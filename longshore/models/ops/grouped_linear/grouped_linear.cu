#include "longshore/models/ops/grouped_linear/grouped_linear_kernels.h"
#include "longshore/models/ops/kernels/cuda_group.cuh"

namespace longshore::models {

void launch_grouped_rows(const GroupedRowsArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "a product of experts' rows"));
}

void launch_grouped_weights(const GroupedWeightsArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "grouped_linear_weight_grad"));
}

}  // namespace longshore::models
