// The CPU with lanes that run at their worst: nothing runs until somebody synchronizes; then the
// next task of a random lane does, wherever its waits allow it, or of one lane for as long as
// possible. Whatever a plan forgot to order goes wrong, and again in the same way.
#pragma once

#include <cstdint>
#include <memory>

#include "longshore/offload/backends/backend.h"

namespace longshore::offload {

std::unique_ptr<Backend> make_shuffled_backend(uint32_t seed);

}  // namespace longshore::offload
