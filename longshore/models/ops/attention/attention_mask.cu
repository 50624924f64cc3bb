#include "longshore/models/ops/attention/attention_mask_body.h"
#include "longshore/models/ops/kernels/cuda_group.cuh"

namespace longshore::models {

void launch_attention_mask(const AttentionMaskArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "attention's mask"));
}

}  // namespace longshore::models
