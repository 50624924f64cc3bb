// What a step takes when the layers do one thing or another with their values, by a formula quick
// enough for millions of combinations. It starts from a plan that was walked under the policy
// `full` and adds what layers do besides: in each of the two passes the time of kernels beside that
// of copies, and memory at the moments when most of it is in use. It knows neither waiting for
// single values nor gaps in the arena; those are the walk's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/planning/auto_layer_choices.h"
#include "trainer/planning/policy_plan.h"

namespace longshore::trainer {

// Seconds that each lane is busy in one of the two passes. An update counts for the pass during
// which it runs.
struct LaneSeconds {
  double compute = 0, to_host = 0, to_device = 0, on_host = 0, network = 0;
};

// A config that says how a step is cut into micro-batches and where its states live, planned and
// walked under the policy `full`.
struct BasePlan {
  // The most that is in use on the device while the first `holding_layers` layers hold what they
  // keep for the backward pass.
  struct Moment {
    int holding_layers = 0;
    double device_bytes = 0;
  };

  Config config;
  std::shared_ptr<const LayerChoices> choices;
  LaneSeconds forward, backward;
  double step_seconds = 0;
  std::vector<Moment> moments;   // those that can be a step's fullest, most layers first
  double device_room_bytes = 0;  // for all that is in use on the device
  double host_room_bytes = 0;    // for the values that layers offload
};

// `full` is the config's plan under that policy, with a profile.
BasePlan base_plan(const Config& config, std::shared_ptr<const LayerChoices> choices,
                   const PolicyPlan& full);

// How many layers ahead of their use transfers start: a copy has the time of one layer's kernels.
inline constexpr double kLayersAhead = 1;

// The first `layers` layers have one assignment, the others another.
struct LayerSplit {
  const BasePlan* base = nullptr;
  size_t first = 0, others = 0;  // places in LayerChoices::assignments
  int layers = 0;
  double seconds = 0;  // of a step, by the formula
  double layers_ahead = kLayersAhead;
};

// What the formula leaves unused.
struct FormulaMargin {
  double link_factor = 1;   // the part of the link's rate that it counts on
  double device_bytes = 0;  // stay empty; negative: counts on more than there are
};

class StepFormula {
 public:
  StepFormula(const BasePlan& base, const offload::Hardware& hardware, const FormulaMargin& margin);

  // The quickest split between two assignments, with `first_layers` of the first where that is
  // given; none where nothing fits.
  std::optional<LayerSplit> best(size_t first, size_t others,
                                 std::optional<int> first_layers) const;

  // Of a step whose first `layers` layers have one assignment, the others another.
  double seconds(const offload::Assignment& first, const offload::Assignment& others,
                 int layers) const;

  // Of such a step: the bytes that the device lacks and those that the host lacks, added up; 0
  // where it fits.
  double missing_bytes(const offload::Assignment& first, const offload::Assignment& others,
                       int layers) const;

 private:
  double seconds_of_pass(const LaneSeconds& busy) const;
  std::vector<int> counts_worth_a_try(const offload::Assignment& first,
                                      const offload::Assignment& others) const;
  std::optional<int> end_of_what_fits(const offload::Assignment& first,
                                      const offload::Assignment& others) const;
  std::vector<int> counts_that_fill_the_link(const offload::Assignment& first,
                                             const offload::Assignment& others) const;

  const BasePlan& base_;
  const LayerChoices& choices_;
  double link_bytes_per_second_, fetch_seconds_per_byte_, device_room_bytes_;
  bool is_one_processor_;  // its lanes take turns, its memory is the device's and the host's
};

}  // namespace longshore::trainer
