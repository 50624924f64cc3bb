// The part of a training plan that follows the gradients: global norm, clipping, AdamW on slabs.
#pragma once

#include "models/ops/adamw.h"
#include "offload/scan.h"

namespace longshore::trainer {

struct OptimizerOptions {
  models::AdamW adamw;            // weight_decay applies to the decayed parts of slabs
  double clipping_threshold = 0;  // 0: no clipping
};

// Scalars the host gives each step, and the norm it gets back (device argument).
inline constexpr const char* kLearningRate = "learning_rate";
inline constexpr const char* kCorrection1 = "correction_1";  // 1 - b1^step
inline constexpr const char* kCorrection2 = "correction_2";
inline constexpr const char* kGradientNorm = "grad_norm";

void append_update(const OptimizerOptions& options, const offload::ParameterLayout& layout,
                   offload::Scan& scan, offload::PlanBuilder& builder);

}  // namespace longshore::trainer
