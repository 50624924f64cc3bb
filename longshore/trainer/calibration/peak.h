// The matmul rate that MFU is relative to.
#pragma once

#include <string>

#include "longshore/offload/backends/backend.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

struct Peak {
  double flops_per_second = 0;
  // "0.91 TFLOP/s, the quickest of 5 matmuls of 2048x2048x2048 in bf16 here"
  std::string description;
};

// Takes peak_tflops_per_device, or measures the rate if that is unset.
Peak find_peak(const Config& config, models::Dtype dtype, offload::Backend& backend);

}  // namespace longshore::trainer
