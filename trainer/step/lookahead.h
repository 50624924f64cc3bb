// How far ahead of their use transfers have to start.
#pragma once

#include "models/model.h"
#include "offload/hardware.h"
#include "trainer/step/step_plans.h"

namespace longshore::trainer {

// Transfers::layers_ahead for a step of that model: of a few depths, the least whose step takes at
// most 1 % longer than the fastest's. A deeper one costs memory and, where the link is the limit,
// wins nothing. Steps of the first layers stand for all; they are walked on the virtual clock. 0
// where nothing moves.
double choose_layers_ahead(const models::Model& model, const offload::LayoutOptions& layout,
                           const StepOptions& options, models::Target target,
                           const offload::Hardware& hardware);

// Whether a step has transfers beside its batch.
bool has_transfers(const offload::Homes& homes, const offload::DeviceMesh& mesh,
                   const StepOptions& options);

}  // namespace longshore::trainer
