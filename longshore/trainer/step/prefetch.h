// choose_prefetch_layers() decides how far ahead of their use transfers start.
#pragma once

#include <array>

#include "longshore/models/ir/model.h"
#include "longshore/offload/hardware/hardware.h"
#include "longshore/trainer/step/step_plans.h"

namespace longshore::trainer {

// The values of Transfers::prefetch_layers that are tried, in ascending order.
inline constexpr std::array<double, 4> kPrefetchDistances{0.25, 0.5, 1, 2};

// Chooses Transfers::prefetch_layers for a step of that model: the smallest depth whose step takes
// at most 1 % longer than that of the best depth. A deeper one would cost memory and gain nothing,
// least of all where the link is the limit. The times are those of a step of the first layers on
// the virtual clock. Returns 0 if nothing is transferred.
double choose_prefetch_layers(const models::Model& model, const offload::LayoutOptions& layout,
                              const StepOptions& options, models::Target target,
                              const offload::Hardware& hardware);

// Whether a step transfers anything except its batch, with or without states in host memory.
bool has_transfers(bool states_on_host, const offload::DeviceMesh& mesh,
                   const StepOptions& options);

}  // namespace longshore::trainer
