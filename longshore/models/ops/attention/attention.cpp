#include "longshore/models/ops/attention/attention.h"

#include <algorithm>
#include <sstream>

#include "longshore/base/error.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/attention/attention_kernels.h"
#include "longshore/models/ops/kernels/custom_kernel.h"

namespace longshore::models {
namespace {

const AttentionAttrs& attrs_of(const std::any& attrs) {
  return std::any_cast<const AttentionAttrs&>(attrs);
}

void expect_options(const AttentionOptions& o) {
  expect(o.head_dim > 0, "attention",
         ("head_dim is " + std::to_string(o.head_dim) + ", not positive").c_str());
  expect(o.scale >= 0, "attention", ("scale is " + std::to_string(o.scale) + ", below 0").c_str());
  expect(o.window >= 0, "attention",
         ("window is " + std::to_string(o.window) + ", below 0").c_str());
  expect(o.soft_cap >= 0, "attention",
         ("soft_cap is " + std::to_string(o.soft_cap) + ", below 0").c_str());
  expect(o.mask != AttentionMask::full || o.window == 0, "attention", "a full mask has no window");
}

void expect_type(const char* name, const Type& found, const Type& expected, const char* op) {
  expect(found == expected, op,
         (name + (" is " + text(found)) + ", not " + text(expected)).c_str());
}

// Inputs from number `at` on.
void expect_ids(const AttentionAttrs& attrs, std::span<const Type> in, size_t at, const Shape& q,
                const char* op) {
  const size_t count = at + (attrs.segments ? 1 : 0) + (attrs.blocks() ? 1 : 0);
  expect_inputs(in, count, count, op);
  const Type ids{{q[0], q[1]}, Dtype::int32};
  if (attrs.segments) expect_type("segments", in[at], ids, op);
  if (attrs.blocks()) expect_type("blocks", in.back(), ids, op);
}

Types infer(const std::any& any, std::span<const Type> in) {
  const AttentionAttrs& attrs = attrs_of(any);
  expect_inputs(in, 3, 6, "attention");
  expect_options(attrs.options);
  int64_t head_dim = attrs.options.head_dim;
  const Shape &q = in[0].shape, &k = in[1].shape;
  expect(q.rank() == 3 && k.rank() == 3 && in[1] == in[2] && q[0] == k[0] && q[1] == k[1] &&
             in[0].dtype == in[1].dtype,
         "attention", "q [B,T,H*D] and k, v [B,T,G*D] do not fit");
  expect(q[2] % head_dim == 0 && k[2] % head_dim == 0 && q[2] % k[2] == 0, "attention",
         "query heads are not a multiple of key/value heads");
  expect_ids(attrs, in, attrs.sinks ? 4 : 3, q, "attention");
  if (attrs.sinks) expect_type("sinks", in[3], {{q[2] / head_dim}, in[0].dtype}, "attention");
  Dtype wide = reduction_dtype(in[0].dtype);
  return {in[0], {{q[0], q[2] / head_dim, q[1]}, wide}};
}

Types infer_grad(const std::any& any, std::span<const Type> in) {
  expect_inputs(in, 6, 8, "attention_grad");
  expect(in[0] == in[1] && in[4] == in[1] && in[2] == in[3], "attention_grad",
         "gradients and values differ in type");
  expect_ids(attrs_of(any), in, 6, in[1].shape, "attention_grad");
  return {in[1], in[2], in[3]};
}

void vjp(Backward& backward, const Node& node) {
  AttentionAttrs attrs = attrs_of(node.attrs);
  const bool has_sinks = attrs.sinks;
  attrs.sinks = false;  // attention_grad has no use for them
  const ValueId dcontext = backward.gradient(node.out[0]), context = node.out[0],
                log_sum_exp = node.out[1];
  std::vector<ValueId> in{dcontext, node.in[0], node.in[1], node.in[2], context, log_sum_exp};
  in.insert(in.end(), node.in.begin() + (has_sinks ? 4 : 3), node.in.end());
  auto grads = backward.emit(attention_grad_op, attrs, std::move(in), node.in[0]);
  for (int i = 0; i < 3; ++i)
    if (backward.wants_gradient(node.in[i])) backward.contribute(node.in[i], grads[i]);
  if (!has_sinks) return;
  if (const ValueId sinks = node.in[3]; backward.wants_gradient(sinks))
    backward.accumulate(attention_sinks_grad_op, backward.weight_gradient_dtype(),
                        {dcontext, context, log_sum_exp, sinks}, sinks);
}

// Two products of the visible scores forward, five backward. Causal attention counts half of T×T,
// and a window of W takes from that the half of (T-W)×(T-W); a full mask counts all, and so do
// blocks, since cuDNN computes all of T×T for them. What segments hide is the batch's, and not
// counted.
double scores(std::span<const Type> in, const std::any& any) {
  const AttentionOptions& options = attrs_of(any).options;
  const Shape& q = in[0].shape;
  double length = static_cast<double>(q[1]);
  const bool is_causal = options.mask == AttentionMask::causal;
  double hidden = is_causal && options.window > 0 ? std::max(length - options.window, 0.) : 0;
  return (is_causal ? 0.5 : 1) * q[0] * (length * length - hidden * hidden) *
         (q[2] / options.head_dim);
}

Cost cost(const std::any& any, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 4 * scores(in, any) * attrs_of(any).options.head_dim,
          .bytes = operand_bytes(in, out)};
}

Cost cost_grad(const std::any& any, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 10 * scores(in, any) * attrs_of(any).options.head_dim,
          .bytes = operand_bytes(in, out)};
}

const char* name(AttentionMask mask) {
  switch (mask) {
    case AttentionMask::causal:
      return "causal";
    case AttentionMask::full:
      return "full";
    case AttentionMask::blocks:
      break;
  }
  return "blocks";
}

std::string print(const std::any& any) {
  const auto& [options, segments, sinks] = attrs_of(any);
  std::ostringstream text;
  text << name(options.mask) << ", head_dim=" << options.head_dim;
  if (options.scale != 0) text << ", scale=" << options.scale;
  if (options.window != 0) text << ", window=" << options.window;
  if (options.soft_cap != 0) text << ", soft_cap=" << options.soft_cap;
  if (segments) text << ", segments";
  if (sinks) text << ", sinks";
  if (!options.deterministic) text << ", gradients in any order";
  return text.str();
}

}  // namespace

void refuse_attention(const AttentionAttrs& attrs, Dtype dtype) {
  throw InternalError(std::string("attention: nothing serves ") + name(dtype) + " with " +
                      attention_op.print(attrs));
}

const Op attention_op{
    .name = "attention",
    .infer = infer,
    .vjp = vjp,
    .cost = cost,
    .print = print,
    .op_class = OpClass::attention,
    .cpu = {attention_cpu, attention_cpu_workspace, attention_cpu_path},
    .cuda = {cuda_kernel<attention_cuda>(), attention_cuda_workspace, attention_cuda_path},
    .cuda_composed = {attention_cuda_aten, attention_cuda_aten_workspace, attention_cuda_aten_path},
    .reference = {attention_composed, attention_composed_workspace}};

const Op attention_grad_op{
    .name = "attention_grad",
    .infer = infer_grad,
    .cost = cost_grad,
    .print = print,
    .op_class = OpClass::attention,
    .variant = {"attention_grad_any_order",
                [](const std::any& any) { return !attrs_of(any).options.deterministic; }},
    .cpu = {attention_grad_cpu, attention_grad_cpu_workspace},
    .cuda = {cuda_kernel<attention_grad_cuda>(), attention_grad_cuda_workspace},
    .cuda_composed = {attention_grad_cuda_aten, attention_grad_cuda_aten_workspace},
    .reference = {attention_grad_composed, attention_grad_composed_workspace}};

Var attention(Var q, Var k, Var v, const AttentionOptions& options,
              const AttentionOptionalInputs& optional) {
  std::vector<Var> in{q, k, v};
  for (Var one : {optional.sinks, optional.segments, optional.blocks})
    if (one.id) in.push_back(one);
  const AttentionAttrs attrs{.options = options,
                             .segments = static_cast<bool>(optional.segments.id),
                             .sinks = static_cast<bool>(optional.sinks.id)};
  return q.trace->emit(attention_op, attrs, std::move(in))[0];
}

}  // namespace longshore::models
