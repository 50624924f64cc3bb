// A formula for the time and memory of a step with given assignments of its layers, quick enough
// for millions of combinations. It starts from a plan that was simulated under the policy `full`,
// and adds what other assignments change: in each of the two passes the times of kernels and of
// copies, and memory at the moments when most of it is in use. It ignores that kernels wait for
// single values and that the arena has gaps; simulations do not.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longshore/trainer/planner/auto/auto_layer_choices.h"
#include "longshore/trainer/planner/policy_plan.h"
#include "longshore/trainer/step/prefetch.h"

namespace longshore::trainer {

// The seconds that each lane is busy in one of the two passes. An update belongs to the pass during
// which it runs.
struct LaneSeconds {
  double compute = 0, to_host = 0, to_device = 0, on_host = 0, network = 0;
};

// A cut of a step into micro-batches and homes of its states, planned and simulated under the
// policy `full`.
struct BasePlan {
  // The most bytes that are in use on the device while the first `holding_layers` layers hold the
  // values that they keep for the backward pass.
  struct Moment {
    int holding_layers = 0;
    double device_bytes = 0;
  };

  Config config;
  std::shared_ptr<const LayerChoices> choices;
  LaneSeconds forward, backward;
  double step_seconds = 0;
  std::vector<Moment> moments;  // those that can be a step's fullest, in descending order of layers
  double device_room_bytes = 0;  // for everything on the device, within its limit
  double shared_room_bytes = 0;  // without the limit; a processor's also holds what is offloaded
  double host_room_bytes = 0;    // for the values that layers offload
};

// `full` is the config's plan under the policy `full` on that hardware, with an estimate.
BasePlan base_plan(const Config& config, std::shared_ptr<const LayerChoices> choices,
                   const PolicyPlan& full, const offload::Hardware& hardware);

// The depth of prefetch that splits start with: at 1 layer ahead a copy has the time of the
// kernels of one layer.
inline constexpr size_t kUsualDepth = 2;  // a place in kPrefetchDistances
static_assert(kPrefetchDistances[kUsualDepth] == 1);

// The first `layers` layers, which can be none, have one assignment, the others another.
struct LayerSplit {
  const BasePlan* base = nullptr;
  size_t first = 0, others = 0;  // places in LayerChoices::assignments
  int layers = 0;
  double seconds = 0;  // the step time by the formula
  double prefetch_layers = kPrefetchDistances[kUsualDepth];
};

// What the formula leaves unused.
struct FormulaMargin {
  double link_factor = 1;   // the part of the link's rate that the formula counts on
  double device_bytes = 0;  // bytes that stay empty; negative: more are used than there are
};

class StepFormula {
 public:
  StepFormula(const BasePlan& base, const offload::Hardware& hardware, const FormulaMargin& margin);

  // The quickest split between two assignments, with `first_layers` first layers if that is given.
  // Returns nothing if no split fits.
  std::optional<LayerSplit> best(size_t first, size_t others,
                                 std::optional<int> first_layers) const;

  // The time of a step whose first `layers` layers have one assignment and the others another.
  double seconds(const offload::Assignment& first, const offload::Assignment& others,
                 int layers) const;

  // The bytes that the device and the host lack for such a step, added up; 0 if it fits.
  double missing_bytes(const offload::Assignment& first, const offload::Assignment& others,
                       int layers) const;

 private:
  double offloaded_bytes(const offload::Assignment& first, const offload::Assignment& others,
                         int layers) const;
  // Calls `f` with the bytes that the device lacks at each moment, negative ones if some are to
  // spare, until it returns false; returns whether it always was true.
  template <class F>
  bool each_missing(const offload::Assignment& first, const offload::Assignment& others, int layers,
                    const F& f) const;
  // Quicker than to ask how much is missing.
  bool fits_device(const offload::Assignment& first, const offload::Assignment& others,
                   int layers) const;
  bool fits_host(const offload::Assignment& first, const offload::Assignment& others,
                 int layers) const;
  double missing_device_bytes(const offload::Assignment& first, const offload::Assignment& others,
                              int layers) const;
  double missing_host_bytes(const offload::Assignment& first, const offload::Assignment& others,
                            int layers) const;
  double seconds_of_pass(const LaneSeconds& busy) const;
  std::vector<int> counts_worth_a_try(const offload::Assignment& first,
                                      const offload::Assignment& others) const;
  std::vector<int> ends_of_what_fits(const offload::Assignment& first,
                                     const offload::Assignment& others) const;
  std::vector<int> counts_that_fill_the_link(const offload::Assignment& first,
                                             const offload::Assignment& others) const;

  const BasePlan& base_;
  const LayerChoices& choices_;
  double link_bytes_per_second_, fetch_seconds_per_byte_, device_room_bytes_, shared_room_bytes_;
  bool is_one_processor_;  // whose memory is both device's and host's
  bool hides_copies_;      // whether kernels and copies run at the same time
};

}  // namespace longshore::trainer
