// The loss that balances experts over all tokens of all layers together, as transformers has it
// (its load_balancing_loss_func; Fedus et al. 2021, arXiv 2101.03961):
//   weight E sum over experts e of f[e] p[e],
// f the tokens that go to the expert, and p the mean of its probabilities, over the N tokens of all
// layers that are no padding. Each layer adds what it has with router_sums() to what earlier layers
// had; pooled_balance_loss() is of all. Sums are float32 (float64 of float64 logits), in an order
// that does not depend on the number of threads on the CPU. The tokens that go to an expert have no
// gradient.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (logits [B,T,E], experts i32 [B,T,k], segments i32 [B,T]: 0 for padding) -> [2,E]: the sums of
// probabilities, and the tokens that go to each expert.
extern const Op router_sums_op;
extern const Op router_sums_grad_op;          // (dsums, logits, segments) -> dlogits
extern const Op pooled_balance_loss_op;       // (sums [2,E]) -> the loss; 0 where there is no token
extern const Op pooled_balance_loss_grad_op;  // (dloss, sums) -> dsums

Var router_sums(Var logits, Var experts, Var segments);
// `taken`: k, the experts that each token goes to.
Var pooled_balance_loss(Var sums, int64_t taken, double weight);

}  // namespace longshore::models
