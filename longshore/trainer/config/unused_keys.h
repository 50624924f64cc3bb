// Keys that are set but have no effect, since another key turns off the feature that they belong
// to. Such a config is valid all the same: lora_rank=0 turns a recipe for adapters into full
// fine-tuning.
#pragma once

#include <string>
#include <vector>

#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// A line for each key that is set to another value than its default and has no effect:
// "configs/x.yml:14 lora_alpha: 32 has no effect with lora_rank = 0 (command line)".
std::vector<std::string> unused_keys(const Config& config);

// The same of what these keys turn off alone.
std::vector<std::string> unused_keys_of(const Config& config,
                                        const std::vector<std::string>& switches);

// The same for a config that is used with several remat policies: the keys that have no effect with
// the policy that uses the most of them.
std::vector<std::string> unused_keys(const Config& config,
                                     const std::vector<std::string>& policies);

}  // namespace longshore::trainer
