// What a step takes when its layers do one thing or another, by a formula quick enough for millions
// of combinations: kernels against copies in each of the two passes, and memory at the moments that
// matter. It starts from a walked plan under the policy `full` and adds what layers do besides.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "offload/assignments.h"
#include "trainer/planning/policy_plan.h"

namespace longshore::trainer {

// What layers can do, for one size of micro-batches.
struct LayerChoices {
  // The first are those that any layer may have; the others keep what one of these offloads, for
  // layers whose values are wanted at once.
  std::vector<offload::Assignment> assignments;
  size_t for_any = 0;
  offload::Assignment full;  // the policy's
  int layers = 0;
  int64_t micro_batches = 0;
};

LayerChoices layer_choices(const models::Model& model,
                           const std::map<std::string, offload::Fate>& fixed, int64_t micro_batches,
                           const offload::Hardware& hardware);

// Seconds that lanes are busy in one of the two passes.
struct Load {
  double compute = 0, to_host = 0, to_device = 0, on_host = 0, network = 0;
};

// A config with homes for its states, planned under `full`.
struct Base {
  // When the first so many layers hold what they keep, at most so many bytes are alive.
  struct Moment {
    int layers = 0;
    double device_bytes = 0;
  };

  Config config;
  const LayerChoices* choices = nullptr;
  Load forward, backward;
  double step_seconds = 0;
  std::vector<Moment> moments;
  double device_room = 0, host_room = 0;  // bytes: for all that is alive; for offloaded values
};

Base make_base(const Config& config, const LayerChoices& choices, const PolicyPlan& full);

// The first `layers` layers do one thing, the others another.
struct Split {
  const Base* base = nullptr;
  size_t first = 0, others = 0;  // assignments
  int layers = 0;
  double seconds = 0;       // by the formula
  double layers_ahead = 1;  // Transfers'
};

class Formula {
 public:
  // `derate` is of the link; `margin` bytes of the device's room stay empty.
  Formula(const Base& base, const offload::Hardware& hardware, double derate, double margin);

  // The best split between two assignments, if any fits; of so many layers where that is given,
  // and not -1.
  std::optional<Split> best(size_t first, size_t others, int64_t layers_given) const;
  double seconds(const offload::Assignment& first, const offload::Assignment& others,
                 int layers) const;
  // Bytes that are too many, on the device and on the host; none are negative.
  double missing(const offload::Assignment& first, const offload::Assignment& others,
                 int layers) const;

 private:
  const Base& base_;
  const LayerChoices& choices_;
  double link_, fetch_seconds_, device_room_;
  bool is_one_processor_;  // whose lanes and memories are the device's and the host's
};

}  // namespace longshore::trainer
