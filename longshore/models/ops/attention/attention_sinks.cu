#include "longshore/models/ops/attention/attention_sinks_body.h"
#include "longshore/models/ops/kernels/cuda_group.cuh"

namespace longshore::models {

void launch_attention_sinks(const AttentionSinksArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "attention's sinks"));
}

void launch_attention_sinks_grad(const AttentionSinksGradArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "attention_sinks_grad"));
}

}  // namespace longshore::models
