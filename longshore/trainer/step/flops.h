// Model FLOPs of a training step, counted as MaxText does: the matmuls and causal attention (which
// counts what is seen), forward and backward; what a remat policy computes again does not count.
// Nor do products for gradients that nothing needs, so where a part trains it is less.
#pragma once

#include "longshore/models/ir/model.h"

namespace longshore::trainer {

double training_flops(const models::Model& model, int64_t micro_batches);

}  // namespace longshore::trainer
