// The models' ops as plain compositions in ATen, which LibTorch's autograd differentiates: an
// independent statement of what the ops compute. They compute in their arguments' dtype.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "longshore/models/ops/attention/attention.h"
#include "longshore/models/ops/rope/rope.h"

namespace longshore::models::plain {

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight);
// Over runs of as many elements as the weight has.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                    double weight_offset = 0);
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double epsilon);

struct RopeTable {
  at::Tensor cos, sin;  // [B,T,R/2], rounded to float32, then in `dtype`
};
RopeTable rope_table(const at::Tensor& positions, int64_t rotary_dim, double base,
                     at::ScalarType dtype, const RopeScaling& scaling = {},
                     const std::optional<RopeTemperature>& temperature = {});
at::Tensor rope(const at::Tensor& x, const RopeTable& table, const RopeOptions& options = {});

// Causal; x [B,T,heads*D]; key/value heads are repeated for the query heads that share them.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     int64_t head_dim);
// ... with all options, for the keys that `visible` (bool [B,T,T] or [1,T,T]) shows to the queries.
// `sinks` [H] may be undefined.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options, const at::Tensor& visible,
                     const at::Tensor& sinks = {});
// Whether query i sees key j: bool [B,T,T]. `segments` and `blocks` [B,T] may be undefined.
at::Tensor visible_keys(int64_t t, const AttentionOptions& options, const at::Tensor& segments,
                        const at::Tensor& blocks = {});
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor gelu(const at::Tensor& x);  // the tanh form
at::Tensor soft_cap(const at::Tensor& x, double cap);
// The row of the id `padding` gets no gradient; -1: none.
at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight, int64_t padding = -1);

// Sum of token losses; targets of -1 count nothing. With a cap, of capped logits.
at::Tensor cross_entropy(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                         double cap = 0);
// Of each token by itself, flattened.
at::Tensor cross_entropies(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                           double cap = 0);

at::Tensor mean_square_error(const at::Tensor& x, const at::Tensor& target);
at::Tensor l2_penalty(const at::Tensor& weight, double factor);

}  // namespace longshore::models::plain
