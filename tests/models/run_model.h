// Runs a whole model with the harness: its stages in order, layer by layer, and back; all values
// are kept and nothing is planned.
#pragma once

#include <vector>

#include "longshore/models/ir/model.h"
#include "tests/models/harness.h"

namespace longshore::models {

struct ModelRun {
  std::vector<at::Tensor> outputs;  // of the last stage
  Tensors gradients;                // of the trained weights, by their full names
  double auxiliary_loss = 0;        // summed over stages and layers
  double expert_load = 0;           // likewise
};

// `weights` by their full names, `batch` by the names the programs read. The last stage's first
// output is a loss that gets the gradient `loss_gradient`; where it is not a loss, no gradients are
// computed. Auxiliary losses get the gradient 1. Gradients of weights are float64 where the loss
// is, else float32.
ModelRun run_model(const Model& model, const Tensors& weights, const Tensors& batch,
                   double loss_gradient, Target target, Checks checks = Checks::memory);

// Normal numbers for every weight, scaled so that values stay of order one.
Tensors random_weights(const Model& model, uint64_t seed);

}  // namespace longshore::models
