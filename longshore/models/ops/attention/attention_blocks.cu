#include "longshore/models/ops/attention/attention_blocks_body.h"
#include "longshore/models/ops/kernels/cuda_group.cuh"

namespace longshore::models {

void launch_attention_softmax(const AttentionSoftmaxArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "attention, softmax"));
}

void launch_attention_softmax_grad(const AttentionSoftmaxGradArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "attention_grad, softmax"));
}

void launch_zero(const ZeroArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "attention_grad, sums"));
}

void launch_round(const RoundArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "attention_grad, rounding"));
}

}  // namespace longshore::models
