// loss_vjp() is the rule of losses that one input has a gradient of.
#pragma once

#include <utility>
#include <vector>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/op.h"

namespace longshore::models {

// The gradient of input 0 by the op that reads dloss and then the same inputs. Others have none.
template <const Op& grad_op>
void loss_vjp(Backward& backward, const Node& node) {
  const ValueId input = node.in[0];
  if (!backward.wants_gradient(input)) return;
  std::vector<ValueId> in{backward.gradient(node.out[0])};
  in.insert(in.end(), node.in.begin(), node.in.end());
  backward.contribute(input, backward.emit(grad_op, node.attrs, std::move(in), input)[0]);
}

}  // namespace longshore::models
