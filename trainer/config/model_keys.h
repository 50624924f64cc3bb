// rope_scaling() and lora_targets() are what several of a config's keys say of its model together.
#pragma once

#include <string>
#include <vector>

#include "models/ops/rope/rope_options.h"
#include "trainer/config/config.h"

namespace longshore::trainer {

// What rope_type and its factors say.
models::RopeScaling rope_scaling(const Config& config);

// The projections that have an adapter: lora_targets, all-linear written out.
std::vector<std::string> lora_targets(const Config& config);

}  // namespace longshore::trainer
