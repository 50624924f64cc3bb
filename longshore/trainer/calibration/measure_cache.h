// measure_cache() measures what a processor's caches hold.
#pragma once

#include "longshore/models/families/decoder.h"
#include "longshore/offload/backends/backend.h"
#include "longshore/offload/hardware/hardware.h"

namespace longshore::trainer {

// Sets how many bytes the caches hold and how fast others are fetched, unless fetching makes hardly
// any difference. Compares the time of one kernel that runs again and again with that of many in
// turn, whose operands have not been used for a while. The kernels are additions of the decoder.
void measure_cache(const models::DecoderConfig& decoder, offload::Backend& backend,
                   offload::Hardware& hardware);

}  // namespace longshore::trainer
