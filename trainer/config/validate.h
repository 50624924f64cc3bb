// Which values a config may have, each by itself and together.
#pragma once

#include "base/problem_list.h"
#include "trainer/config/config.h"

namespace longshore::trainer {

// Throws ConfigError if a value is out of its range or two values contradict each other. For
// configs that were changed after loading.
void validate(const Config& config);

// Adds all that validate() would throw, one fault for each group of keys that go together.
void find_faults(const Config& config, ProblemList& problems);
void find_faults_but_remat(const Config& config, ProblemList& problems);
// Of a config whose model is not known: faults of the keys that do not depend on it.
void find_faults_beside_model(const Config& config, ProblemList& problems);

// The two parts of validate(): whether the remat policy goes together with the label keys and with
// auto_micro_batch, and everything else.
void validate_remat(const Config& config);
void validate_but_remat(const Config& config);

}  // namespace longshore::trainer
