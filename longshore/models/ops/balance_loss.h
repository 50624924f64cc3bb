// Losses on what a router says, scalars in float32 (float64 of float64 logits), summed in an order
// that does not depend on the number of threads on the CPU.
//
// balance_loss() is least where a row's tokens are spread evenly over experts (Shazeer et al. 2017,
// arXiv 1701.06538; Fedus et al. 2021, arXiv 2101.03961), as MaxText has it:
//   weight E mean over rows b of sum over experts e of f[b,e] p[b,e],
// f the tokens that go to the expert, and p the mean of its probabilities, both over the row's T.
// The tokens that go to an expert have no gradient.
//
// router_z_loss() keeps logits small (Zoph et al. 2022, arXiv 2202.08906):
//   weight mean over tokens of (log sum over experts of exp(logit))².
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

extern const Op balance_loss_op;        // (logits [B,T,E], experts i32 [B,T,k]) -> the loss
extern const Op balance_loss_grad_op;   // (dloss, logits, experts) -> dlogits
extern const Op router_z_loss_op;       // (logits [..,E]) -> the loss
extern const Op router_z_loss_grad_op;  // (dloss, logits) -> dlogits

Var balance_loss(Var logits, Var experts, double weight);
Var router_z_loss(Var logits, double weight);

}  // namespace longshore::models
