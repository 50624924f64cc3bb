// ValueAndGrad is the value and the gradients of a model that the C++ caller traced, with its own
// stages and scans, a policy as data, and parameters that live in the memory that the caller
// chooses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/offload/execution/model_values.h"
#include "longshore/offload/execution/tensor.h"
#include "longshore/offload/lowering/scan.h"
#include "longshore/offload/plan/memory_analysis.h"

namespace longshore::offload {

struct ValueAndGradOptions {
  StagePolicies policy = keep_all();  // or make_policy(), save_and_offload(), or one of your own
  Homes homes;
  Transfers transfers;
};

// Parameters, batch inputs and gradients have the names that the model gives them. Values that are
// set are written where they live; only the plan moves them to the device. Before the first call
// all that the model reads must be set, or be given first values: trainer::initialize(f.layout(),
// seed, f.arguments()).
class ValueAndGrad {
 public:
  // The runtime must outlive this. Throws ConfigError for a policy that does not suit the model.
  ValueAndGrad(Runtime& runtime, const models::Model& model,
               const ValueAndGradOptions& options = {});

  // As ModelValues has them, and throwing as those do.
  void set_parameter(const std::string& name, std::span<const float> values) {
    values_.set_parameter(name, values);
  }
  void set_batch(const std::string& name, std::span<const float> values) {
    values_.set_batch(name, values);
  }
  void set_batch(const std::string& name, std::span<const int32_t> values) {
    values_.set_batch(name, values);
  }

  // The sum of losses and auxiliary losses.
  double operator()();
  // The gradient of the last call.
  std::vector<float> gradient(const std::string& name) const { return values_.gradient(name); }

  const ParameterLayout& layout() const { return layout_; }
  Arguments& arguments() { return arguments_; }

  // Counts gradients as outputs.
  MemoryAnalysis memory_analysis(MemoryKind kind) const { return analyze(plan_, kind); }
  const Plan& plan() const { return plan_; }

 private:
  Runtime& runtime_;
  ParameterLayout layout_;
  Plan plan_;
  Arguments arguments_;
  ModelValues values_;
  Arenas arenas_;
  Executable executable_;
};

}  // namespace longshore::offload
