// A Tolerance says how far kernels may be from the reference kernels in float64.
#pragma once

#include "models/ir/op.h"

namespace longshore::models {

// Largest difference from float64 (see `difference`).
struct Tolerance {
  double float32, bfloat16;

  double of(Dtype dtype) const { return dtype == Dtype::float32 ? float32 : bfloat16; }
};

// Of an op's results; a failure of the running test where none is stated.
const Tolerance& tolerance_of(const Op& op);

}  // namespace longshore::models
