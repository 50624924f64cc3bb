// Rotary position embedding (Su et al. 2021, arXiv 2104.09864).
#pragma once

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/rope/rope_options.h"

namespace longshore::models {

// (positions [B,T]) -> cos, sin, each float32 [B,T,R/2].
extern const Op rope_table_op;
// (x [B,T,H*D], cos, sin) -> the rotated x.
extern const Op rope_op;

struct RopeTable {
  Var cos, sin;
};

// Angles positions * base^(-2i/R) for R numbers of a head, the frequencies scaled. `base` is
// rope_theta, MaxText's rope_max_timescale.
RopeTable rope_table(Var positions, int64_t rotary_dim, double base,
                     const RopeScaling& scaling = {},
                     const std::optional<RopeTemperature>& temperature = {});

Var rope(Var x, RopeTable table, const RopeOptions& options = {});

}  // namespace longshore::models
