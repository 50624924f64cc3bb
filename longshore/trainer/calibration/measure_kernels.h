// measure_kernels() measures how fast the kernels of training steps run.
#pragma once

#include <vector>

#include "longshore/base/log.h"
#include "longshore/models/families/decoder.h"
#include "longshore/offload/backends/backend.h"
#include "longshore/offload/hardware/hardware.h"

namespace longshore::trainer {

// The decoders whose kernels are measured, in ascending order of their sizes.
std::vector<models::DecoderConfig> measured_decoders(models::Dtype dtype, models::Target target);

// Runs each kernel of these decoders' training steps alone, with its operands in the cache. Sets
// the rates of kernels, their launch time, and the peak rate of each dtype. `log` gets a line on
// each part of it.
void measure_kernels(const std::vector<models::Dtype>& dtypes, offload::Backend& backend,
                     const Log& log, offload::Hardware& hardware);

}  // namespace longshore::trainer
