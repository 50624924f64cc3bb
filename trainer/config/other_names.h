// What other trainers call the config's keys.
#pragma once

#include <string>

namespace longshore::trainer {

// The key here that stands for one of MaxText, torchtitan, transformers' Trainer or TRL:
// "moment_dtype" for "mu_dtype", with or without its section ("training.seq_len"); "" where there
// is none.
std::string key_for_other_name(const std::string& name);

}  // namespace longshore::trainer
