// largest_that_fits() finds how large a batch, or a row, a machine takes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "longshore/trainer/config/run_spec.h"

namespace longshore::trainer {

struct LargestThatFits {
  int64_t value = 0;             // 0 if the plans fit with none
  bool is_most_allowed = false;  // whether a larger value is not valid, and so was not tried
};

// The largest value of a key with which the plans fit the profile. `key` is as
// require_key_of_largest() has it.
LargestThatFits largest_that_fits(const RunSpec& spec, const std::string& key);

// The config with that value of the key.
Config with_searched(Config config, const std::string& key, int64_t value);

// The largest value from `fit` to before `misfit` of which `spare_bytes` is not negative, as it is
// of `fit`; of `misfit` it is. Asks for few values if the bytes are nearly linear in the value.
int64_t largest_between(int64_t fit, int64_t misfit,
                        const std::function<int64_t(int64_t)>& spare_bytes);

// Throws ConfigError unless it is per_device_batch_size or max_target_length.
void require_key_of_largest(const std::string& key);

}  // namespace longshore::trainer
