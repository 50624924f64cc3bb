// autograd() differentiates by LibTorch's autograd, which tests take as the reference.
#pragma once

#include <vector>

#include "tests/models/harness.h"

namespace longshore::models {

// Copies that autograd follows; integers stay as they are.
Tensors as_leaves(const Tensors& values);

// The leaves of a program without those that never train.
Tensors trained(const Program& program, Tensors leaves);

// Gradients of the sum over i of outputs[i] * cotangents[i] by each floating-point leaf; leaves
// that no output depends on are left out.
Tensors autograd(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& cotangents,
                 const Tensors& leaves);

}  // namespace longshore::models
