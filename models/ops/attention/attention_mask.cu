#include "models/ops/kernels/cuda_group.cuh"
#include "models/ops/attention/attention_mask_body.h"

namespace longshore::models {

void launch_attention_mask(const AttentionMaskArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "attention's mask"));
}

}  // namespace longshore::models
