#include "longshore/models/ops/dequantize/dequantize_kernels.h"
#include "longshore/models/ops/kernels/cuda_group.cuh"

namespace longshore::models {

void launch_dequantize(const DequantizeArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "dequantize"));
}

}  // namespace longshore::models
