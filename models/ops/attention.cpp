#include "models/ops/attention.h"

#include "models/backward.h"
#include "models/ops/attention_kernels.h"
#include "models/ops/infer.h"

namespace longshore::models {
namespace {

const AttentionAttrs& attrs_of(const std::any& attrs) {
  return std::any_cast<const AttentionAttrs&>(attrs);
}

Types infer(const std::any& any, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "attention");
  int64_t head_dim = attrs_of(any).head_dim;
  const Shape &q = in[0].shape, &k = in[1].shape;
  expect(q.rank() == 3 && k.rank() == 3 && in[1] == in[2] && q[0] == k[0] && q[1] == k[1] &&
             in[0].dtype == in[1].dtype,
         "attention", "q [B,T,H*D] and k, v [B,T,G*D] do not fit");
  expect(q[2] % head_dim == 0 && k[2] % head_dim == 0 && q[2] % k[2] == 0, "attention",
         "query heads are not a multiple of key/value heads");
  Dtype wide = in[0].dtype == Dtype::float64 ? Dtype::float64 : Dtype::float32;
  return {in[0], {{q[0], q[2] / head_dim, q[1]}, wide}};
}

Types infer_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 6, 6, "attention_grad");
  expect(in[0] == in[1] && in[4] == in[1] && in[2] == in[3], "attention_grad",
         "gradients and values differ in type");
  return {in[1], in[2], in[3]};
}

void vjp(Backward& backward, const Node& node) {
  auto grads = backward.emit(attention_grad_op, node.attrs,
                             {backward.gradient(node.out[0]), node.in[0], node.in[1], node.in[2],
                              node.out[0], node.out[1]},
                             node.in[0]);
  for (int i = 0; i < 3; ++i)
    if (backward.wants_gradient(node.in[i])) backward.contribute(node.in[i], grads[i]);
}

// Two products of T×T/2 scores a head forward, five backward: causal attention counts half.
double scores(std::span<const Type> in, const std::any& any) {
  const Shape& q = in[0].shape;
  return 0.5 * q[0] * q[1] * q[1] * (q[2] / attrs_of(any).head_dim);
}

Cost cost(const std::any& any, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 4 * scores(in, any) * attrs_of(any).head_dim, .bytes = operand_bytes(in, out)};
}

Cost cost_grad(const std::any& any, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 10 * scores(in, any) * attrs_of(any).head_dim, .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& any) {
  return "causal, head_dim=" + std::to_string(attrs_of(any).head_dim);
}

}  // namespace

const Op attention_op{.name = "attention",
                      .infer = infer,
                      .vjp = vjp,
                      .cost = cost,
                      .print = print,
                      .cpu = {attention_cpu, attention_cpu_workspace},
                      .cuda = {attention_cuda, attention_cuda_workspace},
                      .reference = {attention_composed}};

const Op attention_grad_op{.name = "attention_grad",
                           .infer = infer_grad,
                           .cost = cost_grad,
                           .print = print,
                           .cpu = {attention_grad_cpu, attention_grad_cpu_workspace},
                           .cuda = {attention_grad_cuda, attention_grad_cuda_workspace},
                           .reference = {attention_grad_composed}};

Var attention(Var q, Var k, Var v, int64_t head_dim) {
  return q.trace->emit(attention_op, AttentionAttrs{head_dim}, {q, k, v})[0];
}

}  // namespace longshore::models
