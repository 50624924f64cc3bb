// Keys that are set and read by nobody, as another key turns off what they are about. Such a config
// is right all the same: lora_rank=0 makes a full fine-tuning of a recipe for adapters.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace longshore::trainer {

// Of each key that is set, to another value than its default, and has no effect:
// "configs/x.yml:14 lora_alpha: 32 has no effect with lora_rank = 0 (command line)".
std::vector<std::string> unused_keys(const Config& config);

// The same where several remat policies are asked of the config: what is of use to one is of use.
std::vector<std::string> unused_keys(const Config& config,
                                     const std::vector<std::string>& policies);

}  // namespace longshore::trainer
