#include "longshore/models/ops/kernels/cuda_group.cuh"
#include "longshore/models/ops/square_sum/square_sum_kernels.h"

namespace longshore::models {

void launch_square_sum(const SquareSumArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "square_sum"));
}

void launch_sum_in_order(const SumInOrderArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "sum_in_order"));
}

void launch_clip(const ClipArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "clip"));
}

}  // namespace longshore::models
