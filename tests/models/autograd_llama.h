// Llama as a plain composition in ATen, differentiated by LibTorch's autograd: what the whole of
// our own machinery is compared with. It shares no code with longshore/models/ but the config.
#pragma once

#include "longshore/models/families/decoder.h"
#include "tests/models/harness.h"

namespace longshore::models {

struct AutogradLlama {
  at::Tensor loss;    // sum of token losses
  Tensors gradients;  // of loss * loss_gradient, by the weights' full names
};

// Computes in the weights' dtype, whatever config.dtype says: pass float64 copies of float32 or
// bfloat16 weights to get exact answers. `tokens`, `positions` and `targets` are i32 [B,T].
AutogradLlama autograd_llama(const DecoderConfig& config, const Tensors& weights,
                             const at::Tensor& tokens, const at::Tensor& positions,
                             const at::Tensor& targets, double loss_gradient);

}  // namespace longshore::models
