// cpu_dtypes() lists the dtypes that this processor can compute in.
#pragma once

#include <vector>

#include "longshore/models/ops/kernels/onednn_matmul.h"

namespace longshore::models {

// float32 and, last, bfloat16 where oneDNN multiplies it.
inline std::vector<Dtype> cpu_dtypes() {
  if (!multiplies_bfloat16()) return {Dtype::float32};
  return {Dtype::float32, Dtype::bfloat16};
}

}  // namespace longshore::models
