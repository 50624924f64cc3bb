// Explains to the user what a policy does with each labelled value of a layer.
#pragma once

#include <string>

#include "longshore/offload/lowering/scan.h"

namespace longshore::offload {

// "stage decoder, layers 0 to 38"; "stage decoder, 21 layers from 0 to 40" where other layers lie
// in between.
std::string title(const LayerPlan& layers);

// A table with a line for each label: the value's bytes, and whether it stays on the device, goes
// to the host, is computed again or is not read by the backward pass. Then the recomputed nodes.
std::string explain(const LayerPlan& layers);

}  // namespace longshore::offload
