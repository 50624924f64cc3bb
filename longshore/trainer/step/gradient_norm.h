// The global norm of gradients, exact wherever they live: each parameter's square sum is taken when
// its gradient is made, and they are added up in one fixed order. Each device takes the
// part that it updates; where that is not all, the sums of devices are then added up.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "longshore/offload/lowering/pass_operands.h"

namespace longshore::trainer {

inline constexpr const char* kGradientNorm = "grad_norm";  // device argument, before clipping
// Argument of the memory kind that the update's lane works in; 0 where nothing is to be updated.
inline constexpr const char* kClipFactor = "clip_factor";

class GradientNorm {
 public:
  GradientNorm(offload::PassOperands& operands, offload::PlanBuilder& builder);

  // What PassOptions calls in the pass that ends a step: the first where a device trains alone, the
  // second where gradients are summed up over several.
  void on_parameter_gradient(const offload::ParameterLayout::Location& location,
                             const offload::Scope& scope);
  void on_bucket_gradients(int bucket);

  // After the pass: writes kGradientNorm and, where it is given, the `factor` (f32 scalar, on the
  // device or on the host) that clips to the threshold.
  void finish(double threshold, const offload::Operand& factor = {});

 private:
  // A part of a parameter that trains.
  struct Part {
    int bucket = 0, parameter = 0, number = 0;
    auto operator<=>(const Part&) const = default;
  };

  void add_square_sum(const offload::Operand& gradient, const Part& part,
                      const offload::Scope& scope);

  offload::PassOperands& operands_;
  offload::PlanBuilder& builder_;
  // Square sums that devices along the same axes have parts of; this one may have none.
  struct Group {
    int first = 0, count = 0;
    bool over_data = false;  // beside fsdp
  };

  // Of what is split along the axis, or of what is not.
  void add_group(std::optional<offload::Axis> split);
  // Their sums over devices, f64 [groups]; the square sums themselves where no device has others.
  offload::Operand over_devices(const offload::Scope& scope);

  std::map<Part, int> index_;     // of its square sum
  std::vector<Group> groups_;     // at most two: what replicas have in common, and what is split
  offload::Operand square_sums_;  // f64 [parts of which some is held]
};

}  // namespace longshore::trainer
