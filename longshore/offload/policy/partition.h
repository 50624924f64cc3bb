// Decides, for each value of a layer's forward program, whether it is kept on the device, offloaded
// to host memory or computed again, as a policy says, and rewrites the backward program to read it
// from there. A value is kept only if the backward program, or what it computes again, really reads
// it; what is needed and not kept is made by clones of just the nodes it depends on, as late as
// possible (after JAX's partial evaluation, cf. jax.checkpoint). What is made of weights alone at
// little cost, such as the numbers of quantized ones, is never kept, whatever the policy.
#pragma once

#include <string>
#include <vector>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/program.h"
#include "longshore/offload/policy/policy.h"

namespace longshore::offload {

// How a layer's forward and backward pass follow each other.
enum class Schedule {
  apart,         // other layers run in between
  back_to_back,  // as in the last stage: what the backward program makes too is made once
};

// A value of the forward pass that the backward pass reads.
struct Residual {
  models::ValueId value;
  Action action = Action::keep;  // keep or offload
};

struct Partition {
  models::Program forward;  // without the nodes that nothing needs
  // Its first values are the forward program's: residuals, weights, batch inputs. Clones are nodes
  // that recompute; what they make is named "<value>.remat".
  models::Program backward;
  std::vector<Residual> residuals;                // values of forward nodes and inputs, in order
  std::vector<models::ValueId> recomputed;        // values of forward nodes that clones make again
  std::vector<models::ValueId> cotangents;        // as in BackwardProgram
  std::vector<models::GradientOf> gradients;      // likewise
  std::vector<models::Accumulator> accumulators;  // likewise
  // With Schedule::back_to_back: outputs that the backward program makes in the forward one's
  // place.
  std::vector<models::RemadeOutput> remade_outputs;
};

Partition partition(const models::Program& forward, const models::BackwardProgram& backward,
                    const Policy& policy, Schedule schedule = Schedule::apart);

// Bytes a layer keeps under that action; what several layers read, and so is there once, does not
// count.
int64_t residual_bytes(const Partition& partition, Action action);

// One layer under one policy, for people: what is kept, the forward nodes, the backward nodes.
std::string text(const Partition& partition);

}  // namespace longshore::offload
