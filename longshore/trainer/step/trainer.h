// A Trainer trains a model that the C++ caller traced: it owns the plans of a step, all memory that
// they take, and the TrainStep that runs them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "longshore/models/ops/update/adamw.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/model_values.h"
#include "longshore/offload/execution/tensor.h"
#include "longshore/trainer/step/memory_report.h"
#include "longshore/trainer/step/step.h"

namespace longshore::trainer {

struct TrainerOptions {
  offload::StagePolicies policy = offload::keep_all();
  offload::Homes homes;
  offload::Transfers transfers;
  // adamw(), lion() or sgd() of longshore/models/ops/update.
  models::Optimizer optimizer =
      models::adamw({.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1});
  models::StateFormat state_format = models::StateFormat::float32;  // of what the optimizer keeps
  models::Dtype weight_dtype = models::Dtype::float32;              // of what is trained
  double clipping_threshold = 0;                                    // 0: no clipping
  ClippingNorm clipping_norm = ClippingNorm::global_norm;
  // Lane::host_compute: the host updates what lives there.
  offload::Lane update_lane = offload::Lane::compute;
  uint64_t seed = 0;  // of first values and of stochastic rounding
};

// One micro-batch a step, on one device. Parameters begin as the model's Init says.
class Trainer {
 public:
  // The runtime must outlive this. Throws ConfigError for a policy that does not suit the model,
  // and OutOfMemoryError where memory cannot be had.
  Trainer(offload::Runtime& runtime, const models::Model& model,
          const TrainerOptions& options = {});

  // As offload::ModelValues has them, and throwing as those do. A batch stays until it is set
  // again.
  void set_batch(const std::string& name, std::span<const float> values) {
    values_.set_batch(name, values);
  }
  void set_batch(const std::string& name, std::span<const int32_t> values) {
    values_.set_batch(name, values);
  }
  void set_parameter(const std::string& name, std::span<const float> values);
  std::vector<float> parameter(const std::string& name);

  // Forward, backward and update. The model's loss is divided by `total_weights`: 1 where it is a
  // mean already, the number of trained targets where it is the sum over those, as a decoder's is.
  // Throws UsageError where that is not positive.
  StepResult step(double learning_rate, int64_t total_weights = 1);

  // Of all plans of a step together, with states as arguments.
  offload::MemoryAnalysis memory_analysis(offload::MemoryKind kind) const {
    return analyze(plans_.all())[kind];
  }
  const StepPlans& plans() const { return plans_; }

 private:
  offload::Runtime& runtime_;
  offload::ParameterLayout layout_;
  StepPlans plans_;
  offload::Arguments arguments_;
  offload::ModelValues values_;
  offload::Arenas arenas_;
  TrainStep step_;
  int64_t steps_ = 0;  // that were made
};

}  // namespace longshore::trainer
