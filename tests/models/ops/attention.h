// Attention's cases, for tests of what its record does not show.
#pragma once

#include <utility>
#include <vector>

#include "longshore/models/ops/attention/attention.h"
#include "tests/models/op_cases.h"

namespace longshore::models {

// Inputs q, k, v, and segments and blocks where they are defined; and weights `sinks`.
struct AttentionShape {
  int64_t b, t, h, g;
  AttentionOptions options;
  at::Tensor segments = {}, blocks = {};  // int32 [B,T]
  bool has_sinks = false;
};
OpCase attention_case(const AttentionShape& shape);
// Runs of these lengths in every row, with ids of no order; the last one is what is left.
at::Tensor segments_of(int64_t b, int64_t t, const std::vector<int64_t>& lengths);
// Blocks [begin, end), with ids of no order, in the first row; a position later in each row.
at::Tensor blocks_of(int64_t b, int64_t t, const std::vector<std::pair<int64_t, int64_t>>& blocks);

}  // namespace longshore::models
