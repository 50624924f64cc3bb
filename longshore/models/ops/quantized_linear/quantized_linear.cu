#include "longshore/models/ops/kernels/cuda_group.cuh"
#include "longshore/models/ops/quantized_linear/quantized_linear_kernels.h"

namespace longshore::models {

void launch_quantized_linear(const QuantizedLinearArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "quantized_linear"));
}

}  // namespace longshore::models
