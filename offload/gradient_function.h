// Value and gradients of a model that a C++ user traced: stages and scans of their own, a policy as
// data, and parameters that live where they are told to.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "offload/arenas.h"
#include "offload/arguments.h"
#include "offload/executor.h"
#include "offload/scan.h"
#include "offload/tensor.h"

namespace longshore::offload {

struct GradientOptions {
  Policy policy;  // make_policy(), or save_and_offload()
  std::optional<int> offload_layers;
  Homes homes;
  Transfers transfers;
};

// Parameters, batch inputs and gradients are known by their names in the model. Nothing is on the
// device that the plan does not put there: parameters are written where they live.
class GradientFunction {
 public:
  GradientFunction(Runtime& runtime, const models::Model& model, const GradientOptions& options);
  ~GradientFunction();

  // float32 values; into the parameter's dtype by rounding to nearest. Throw InternalError for an
  // unknown name, listing the known ones, or a wrong count.
  void set_parameter(const std::string& name, std::span<const float> values);
  void set_batch(const std::string& name, std::span<const float> values);

  // The sum of losses and auxiliary losses.
  double operator()();
  // Of the last call.
  std::vector<float> gradient(const std::string& name) const;

  // Gradients are outputs here; analyses tell them apart from arguments and temporaries.
  MemoryAnalysis memory_analysis(MemoryKind kind) const { return analyze(plan_, kind); }
  const Plan& plan() const { return plan_; }

 private:
  struct Range {
    std::string argument;
    int64_t offset_bytes = 0;
    models::Type type;
  };
  Range range(const std::string& parameter, Copy copy) const;
  void write(const Range& range, std::span<const float> values);

  Runtime& runtime_;
  ParameterLayout layout_;
  Plan plan_;
  Arguments arguments_;
  Arenas arenas_;
  Executable executable_;
};

}  // namespace longshore::offload
