// Rows of several sequences, for the cases of ops that tell them apart.
#pragma once

#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {

// Runs of 1 to `longest` positions in each row, and padding behind them.
inline at::Tensor some_segments(int64_t b, int64_t t, int64_t longest) {
  at::Tensor segments = at::zeros({b, t}, at::kInt);
  for (int64_t row = 0; row < b; ++row) {
    int32_t segment = 0;
    for (int64_t at = 0; at + longest + row < t;) {
      const int64_t length = 1 + (at + row) % longest;
      segments[row].narrow(0, at, length).fill_(++segment);
      at += length;
    }
  }
  return segments;
}

// Of which some are not trained.
inline at::Tensor some_targets(int64_t b, int64_t t) {
  const at::Tensor targets = random_integers({b, t}, 9, 3);
  return at::where(targets.lt(3), targets.new_full({1}, kIgnoredTarget), targets);
}

}  // namespace longshore::models
