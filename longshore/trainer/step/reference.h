// The reference of a preference: another model, or the policy in another state, whose
// log-probabilities of a micro-batch's sequences are there before the policy's passes.
#pragma once

#include <optional>
#include <string>

#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/offload/lowering/staging.h"
#include "longshore/offload/plan/plan.h"
#include "longshore/trainer/config/run_spec.h"

namespace longshore::trainer {

struct PlannedReference {
  // Buckets of which the policy's arguments are read, and others, with names of their own
  // (is_of_reference()), which take memory beside the policy's.
  offload::ParameterLayout layout;
  offload::Plan plan;  // leaves log-probabilities of the batch that the step's first pass reads
};

bool is_of_reference(const offload::Bucket& bucket);

// Nothing where the objective has none, or none in a step since it is precomputed. `policy` is how
// the model that trains lies on this device, by these options.
std::optional<PlannedReference> plan_reference(const RunSpec& spec,
                                               const offload::ParameterLayout& policy,
                                               const offload::LayoutOptions& options,
                                               const offload::Transfers& transfers);

// Writes what the reference has of its own, as it is where training begins. Says what was read; ""
// where nothing was.
std::string give_reference_values(const Config& config, const offload::ParameterLayout& reference,
                                  models::Target target, offload::Arguments& arguments);

}  // namespace longshore::trainer
