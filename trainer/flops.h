// Model FLOPs of a training step by MaxText's formula: forward and backward of the matmuls and of
// causal attention (which counts half); what a remat policy computes again does not count.
#pragma once

#include "models/decoder.h"

namespace longshore::trainer {

double training_flops(const models::DecoderConfig& model, int64_t micro_batches);

}  // namespace longshore::trainer
