#include "tests/models/tolerances.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace longshore::models {
namespace {

// One rounding of a result to bfloat16 is at most 2^-8 of it.
constexpr double kRounding = 1. / 256;

// float32 sums of many terms, and what an exponential does to their error, need some room; more
// where vectors are short. In bfloat16, attention rounds its probabilities and their gradients as
// well, and the cross-entropy its logits' gradients. Weights' gradients are float32 in both.
const std::map<std::string, Tolerance> kTolerances{
    {"adamw", {5e-7, 5e-7}},
    {"add", {2e-7, kRounding}},
    {"add_bias", {2e-7, kRounding}},
    {"add_bias_grad", {1e-6, 1e-6}},
    {"attention", {3e-5, 1.6e-2}},
    {"attention_grad", {5e-5, 4e-2}},
    {"cached_attention", {1e-5, kRounding}},
    {"clip", {1e-7, 1e-7}},
    {"embedding", {0, 0}},
    {"embedding_grad", {1e-6, 1e-6}},
    {"geglu", {5e-7, kRounding}},
    {"geglu_grad", {2e-6, kRounding}},
    {"gelu", {5e-7, kRounding}},
    {"gelu_grad", {1e-6, kRounding}},
    {"l2_penalty", {1e-7, 1e-7}},
    {"l2_penalty_grad", {3e-7, 3e-7}},
    {"linear", {4e-6, kRounding}},
    {"lion", {5e-7, 5e-7}},
    {"linear_cross_entropy", {1e-6, 1e-6}},
    {"linear_cross_entropy_grad", {5e-5, 2e-2}},
    {"linear_input_grad", {4e-6, kRounding}},
    {"linear_weight_grad", {4e-6, 4e-6}},
    {"mean_square_error", {2e-7, 2e-7}},
    {"mean_square_error_grad", {3e-7, kRounding}},
    {"rms_norm", {2e-6, kRounding}},
    {"rms_norm_grad", {2e-6, kRounding}},
    {"rope", {3e-7, kRounding}},
    {"rope_table", {1e-7, 1e-7}},
    {"scale", {2e-7, kRounding}},
    {"sgd", {5e-7, 5e-7}},
    {"soft_cap", {5e-7, kRounding}},
    {"soft_cap_grad", {1e-6, kRounding}},
    {"square_sum", {1e-12, 1e-12}},
    {"sum_in_order", {1e-12, 1e-12}},
    {"sum", {1e-7, 1e-7}},
    {"sum_grad", {0, kRounding}},
    {"swiglu", {5e-7, kRounding}},
    {"swiglu_grad", {2e-6, kRounding}},
    {"take_rows", {0, 0}},
};

}  // namespace

const Tolerance& tolerance_of(const Op& op) {
  static const Tolerance none{0, 0};
  auto found = kTolerances.find(op.name);
  if (found == kTolerances.end()) ADD_FAILURE() << op.name << " has no stated tolerance";
  return found == kTolerances.end() ? none : found->second;
}

}  // namespace longshore::models
