// validate() checks the values of a config, each by itself and all together.
#pragma once

#include <cstdint>
#include <filesystem>

#include "longshore/base/problem_list.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// Throws ConfigError if a value is out of its range or two values contradict each other. For
// configs that were changed after loading.
void validate(const Config& config);

// Adds what validate() would throw, one fault for each group of keys that go together: of the
// remat policy, of the model, and of all else.
void find_remat_faults(const Config& config, ProblemList& problems);
void find_model_faults(const Config& config, ProblemList& problems);
void find_other_faults(const Config& config, ProblemList& problems);

// The two parts of validate(): whether the remat policy is one, and goes together with the label
// keys and with auto_micro_batch, and everything else.
void validate_remat(const Config& config);
void validate_but_remat(const Config& config);

// Throws a ConfigError where a micro-batch has more than kMaxTokens tokens.
void require_tokens_of_batch(const Config& config);

// Of a program that takes a folder's model and no profile: throws a ConfigError where
// parameter_layers_on_device is auto, or more than the model's layers.
void require_layers_on_device(const Config& config, const std::filesystem::path& model,
                              int64_t layers);

}  // namespace longshore::trainer
