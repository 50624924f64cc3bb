#include "longshore/models/ir/collectives.h"

#include <string>

#include "longshore/base/error.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"

namespace longshore::models {
namespace {

int64_t ranks(const std::any& attrs) { return std::any_cast<const Collective&>(attrs).ranks; }

const Type& one_value(std::span<const Type> in, const char* op) {
  expect_inputs(in, 1, 1, op);
  return in[0];
}

const Type& divided(const std::any& attrs, std::span<const Type> in, const char* op) {
  const Type& x = one_value(in, op);
  if (x.shape.rank() == 0 || x.shape[0] % ranks(attrs) != 0)
    throw InternalError(std::string(op) + ": " + text(x) + " does not divide into " +
                        std::to_string(ranks(attrs)));
  return x;
}

Types infer_all_gather(const std::any& attrs, std::span<const Type> in) {
  const Type& x = one_value(in, "all_gather");
  expect(x.shape.rank() > 0, "all_gather", "expected a value with a dimension");
  return {{x.shape.with(0, x.shape[0] * ranks(attrs)), x.dtype}};
}

Types infer_reduce_scatter(const std::any& attrs, std::span<const Type> in) {
  const Type& x = divided(attrs, in, "reduce_scatter");
  return {{x.shape.with(0, x.shape[0] / ranks(attrs)), x.dtype}};
}

Types infer_all_reduce(const std::any&, std::span<const Type> in) {
  return {one_value(in, "all_reduce")};
}

Types infer_all_to_all(const std::any& attrs, std::span<const Type> in) {
  return {divided(attrs, in, "all_to_all")};
}

template <const Op& transpose>
void vjp(Backward& backward, const Node& node) {
  const ValueId x = node.in[0];
  if (backward.wants_gradient(x))
    backward.contribute(
        x, backward.emit(transpose, node.attrs, {backward.gradient(node.out[0])}, x)[0]);
}

template <const Op& op>
Cost cost(const std::any& attrs, std::span<const Type> in, std::span<const Type>) {
  return {.flops = 0, .bytes = wire_bytes(op, attrs, in[0])};
}

std::vector<Reuse> reuse_all_reduce(const std::any&, int) { return {{.out = 0, .in = 0}}; }

std::string print(const std::any& attrs) {
  const auto& among = std::any_cast<const Collective&>(attrs);
  return std::string(name(among.axis)) + "=" + std::to_string(among.ranks);
}

}  // namespace

const Op all_gather_op{.name = "all_gather",
                       .infer = infer_all_gather,
                       .vjp = vjp<reduce_scatter_op>,
                       .cost = cost<all_gather_op>,
                       .print = print};
const Op reduce_scatter_op{.name = "reduce_scatter",
                           .infer = infer_reduce_scatter,
                           .vjp = vjp<all_gather_op>,
                           .cost = cost<reduce_scatter_op>,
                           .print = print};
const Op all_reduce_op{.name = "all_reduce",
                       .infer = infer_all_reduce,
                       .vjp = vjp<all_reduce_op>,
                       .cost = cost<all_reduce_op>,
                       .print = print,
                       .reuse = reuse_all_reduce};
const Op all_to_all_op{.name = "all_to_all",
                       .infer = infer_all_to_all,
                       .vjp = vjp<all_to_all_op>,
                       .cost = cost<all_to_all_op>,
                       .print = print};

bool is_collective(const Op& op) {
  return &op == &all_gather_op || &op == &reduce_scatter_op || &op == &all_reduce_op ||
         &op == &all_to_all_op;
}

Var all_gather(Var x, const Collective& among) {
  return x.trace->emit(all_gather_op, among, {x})[0];
}
Var reduce_scatter(Var x, const Collective& among) {
  return x.trace->emit(reduce_scatter_op, among, {x})[0];
}
Var all_reduce(Var x, const Collective& among) {
  return x.trace->emit(all_reduce_op, among, {x})[0];
}
Var all_to_all(Var x, const Collective& among) {
  return x.trace->emit(all_to_all_op, among, {x})[0];
}

double wire_bytes(const Op& op, const std::any& attrs, const Type& in) {
  const double n = static_cast<double>(ranks(attrs)), bytes = static_cast<double>(in.bytes());
  if (&op == &all_gather_op) return bytes * (n - 1);
  return (&op == &all_reduce_op ? 2 : 1) * bytes * (n - 1) / n;
}

}  // namespace longshore::models
