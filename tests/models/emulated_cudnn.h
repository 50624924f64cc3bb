// emulate_cudnn_graph() computes a graph of cuDNN's attention by ATen on the CPU, from the operands
// that it is given.
#pragma once

#include "longshore/models/ops/attention/attention_cudnn.h"

namespace longshore::models {

void emulate_cudnn_graph(const CudnnAttention& part, CudnnPass pass, CudnnOperands& operands,
                         std::span<std::byte> workspace, void* stream);

}  // namespace longshore::models
