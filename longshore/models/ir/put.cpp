#include "longshore/models/ir/put.h"

#include "longshore/base/error.h"
#include "longshore/models/ir/backward.h"

namespace longshore::models {
namespace {

Types infer(const std::any&, std::span<const Type> in) {
  if (in.size() != 1) throw InternalError("put: expected one value");
  return {in[0]};
}

void vjp(Backward& backward, const Node& node) {
  if (backward.wants_gradient(node.in[0]))
    backward.contribute(node.in[0], backward.gradient(node.out[0]));
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return {.flops = 0, .bytes = static_cast<double>(in[0].bytes())};
}

std::string print(const std::any& attrs) { return name(std::any_cast<MemoryKind>(attrs)); }

}  // namespace

const Op put_op{.name = "put",
                .infer = infer,
                .vjp = vjp,
                .cost = cost,
                .print = print,
                .recompute_cost = RecomputeCost::low};

Var put(Var x, MemoryKind kind) {
  if (kind == MemoryKind::unpinned_host)
    throw UsageError(
        "put: a running plan cannot move from or to unpinned_host; expected device or "
        "pinned_host");
  return x.trace->emit(put_op, kind, {x})[0];
}

}  // namespace longshore::models
