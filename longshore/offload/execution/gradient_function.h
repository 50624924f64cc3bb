// Value and gradients of a model that the C++ caller traced, with its own stages and scans, a
// policy as data, and parameters that live in the memory that the caller chooses.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/offload/execution/tensor.h"
#include "longshore/offload/lowering/scan.h"
#include "longshore/offload/plan/memory_analysis.h"

namespace longshore::offload {

struct GradientOptions {
  StagePolicies policy;  // make_policy(), or save_and_offload()
  Homes homes;
  Transfers transfers;
};

// Parameters, batch inputs and gradients have the names that the model gives them. Values that are
// set are written where they live; only the plan moves them to the device.
class GradientFunction {
 public:
  GradientFunction(Runtime& runtime, const models::Model& model, const GradientOptions& options);
  ~GradientFunction();

  // Values of a parameter or batch input of float32 or bfloat16, rounded to nearest. Throw
  // UsageError for an unknown name, listing the known ones, for another dtype, and for a wrong
  // count.
  void set_parameter(const std::string& name, std::span<const float> values);
  void set_batch(const std::string& name, std::span<const float> values);

  // The sum of losses and auxiliary losses.
  double operator()();
  // The gradient of the last call. Throws UsageError for an unknown name, listing the known ones,
  // and for a parameter that is frozen.
  std::vector<float> gradient(const std::string& name) const;

  // Counts gradients as outputs.
  MemoryAnalysis memory_analysis(MemoryKind kind) const { return analyze(plan_, kind); }
  const Plan& plan() const { return plan_; }

 private:
  // The part of an argument that holds the values of a parameter or batch input.
  struct Range {
    std::string argument;
    int64_t offset_bytes = 0;
    models::Type type;
  };
  const ParameterLayout::Location& location(const std::string& parameter) const;
  Range range(const ParameterLayout::Location& location, Copy copy) const;
  void write(const std::string& name, const Range& range, std::span<const float> values);

  Runtime& runtime_;
  ParameterLayout layout_;
  std::map<std::string, models::Type> batch_inputs_;
  Plan plan_;
  Arguments arguments_;
  Arenas arenas_;
  Executable executable_;
};

}  // namespace longshore::offload
