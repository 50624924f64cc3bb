// Dropout (Srivastava et al. 2014): each number is 0 with some probability, and else divided by the
// probability that it is not. Which ones are, follows from the run's seed, the number of the row in
// the run's data, the layer and the place alone: the same when a layer is computed again, in a run
// that goes on, and however rows are dealt out to micro-batches and devices.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

struct DropoutOptions {
  double probability = 0;  // at least 0, below 1
  uint64_t seed = 0;
  uint32_t sequence =
      0;  // of what the layer drops out, longshore/base/philox.h's random_sequence()
};

// (x [B,..], numbers of its rows i32 [B], the layer's f32 [1]) -> x
extern const Op dropout_op;

Var dropout(Var x, Var row_numbers, Var layer, const DropoutOptions& options);

}  // namespace longshore::models
