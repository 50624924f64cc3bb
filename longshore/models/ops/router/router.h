// router(logits, options) says which experts each token goes to, and the weight of each (Shazeer et
// al. 2017, arXiv 1701.06538).
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

enum class RouterScore : uint8_t {
  softmax,  // over all experts; normalized: over those that are taken
  sigmoid,  // of each
};

struct RouterOptions {
  int64_t experts_per_token = 1;
  RouterScore score = RouterScore::softmax;
  bool normalized = true;  // of softmax: the weights of a token sum to 1
};

// (logits [..,E]) -> weights [..,k] in float32, or float64 where logits are, and experts i32
// [..,k]: those of the k largest logits of a row, the largest first; of equal ones the first.
extern const Op router_op;
// (dweights [..,k], logits [..,E], experts i32 [..,k]) -> dlogits [..,E].
extern const Op router_grad_op;

struct Routing {
  Var weights, experts;
};

Routing router(Var logits, const RouterOptions& options);

}  // namespace longshore::models
