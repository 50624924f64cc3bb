// Starting values: each parameter a pure function of (seed, its name), whatever the slab or layer
// it lies in; moments at zero.
#pragma once

#include <cstdint>

#include "offload/executor.h"
#include "offload/parameter_layout.h"

namespace longshore::trainer {

// Writes every copy of every slab where it lives; arguments are allocated where they are missing.
// Beside them the host holds two copies of one slab at a time.
void initialize(const offload::ParameterLayout& layout, uint64_t seed,
                offload::Arguments& arguments);

}  // namespace longshore::trainer
