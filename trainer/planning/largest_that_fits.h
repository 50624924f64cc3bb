// How large a batch, or a row, a machine takes.
#pragma once

#include <cstdint>
#include <string>

#include "offload/hardware.h"
#include "trainer/config/config.h"

namespace longshore::trainer {

// The largest value of a key with which the plans fit `hardware`; 0 if they fit with none. `key` is
// per_device_batch_size or max_target_length; throws ConfigError for other keys.
int64_t largest_that_fits(const Config& config, const std::string& key,
                          const offload::Hardware& hardware);

}  // namespace longshore::trainer
