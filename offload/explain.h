// What a policy does to a layer, label by label, for people.
#pragma once

#include <string>

#include "offload/scan.h"

namespace longshore::offload {

// "stage decoder, layers 0 to 38", or ", 21 layers from 0 to 40" where others lie between
std::string title(const LayerPlan& layers);

// A table of labels: bytes, and whether the value stays, goes to the host, is computed again or is
// not read; then the nodes that are recomputed.
std::string explain(const LayerPlan& layers);

}  // namespace longshore::offload
