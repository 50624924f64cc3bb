// Updates as compositions of ATen's ops, a part of the range at a time.
#pragma once

#include <vector>

#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/update/update_kernels.h"

namespace longshore::models {

// What a rule reads: float32, or float64 where the operands are. The gradient is clipped.
struct ComposedUpdate {
  at::Tensor gradient, weight, learning_rate;
  std::vector<at::Tensor> scalars;  // the rule's
  RuleNumbers numbers;
  double weight_decay;
};

// Returns the updated weight, and gives `states` their new values. Writes to none of the tensors
// that it is given.
using ComposeUpdate = at::Tensor (*)(const ComposedUpdate&, std::vector<at::Tensor>& states);

void run_update_composed(const KernelCall& call, ComposeUpdate compose);

template <ComposeUpdate compose>
void update_composed(const KernelCall& call) {
  run_update_composed(call, compose);
}

}  // namespace longshore::models
