#include "longshore/models/ops/pooled_balance_loss.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "longshore/base/round_up.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/softmax.h"

namespace longshore::models {
namespace {

struct Attrs {
  int64_t taken;
  double weight;
};

Attrs attrs_of(const std::any& attrs) { return std::any_cast<const Attrs&>(attrs); }

// --- records

Type sums_type(const Type& logits) {
  return {{2, logits.shape.back()}, scalar_loss(logits.dtype).dtype};
}

Types infer_sums(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "router_sums");
  const Shape &logits = in[0].shape, &experts = in[1].shape;
  expect(logits.rank() == 3 && in[1].dtype == Dtype::int32 &&
             experts.with_back(1) == logits.with_back(1) &&
             in[2] == Type{{logits[0], logits[1]}, Dtype::int32},
         "router_sums", "logits [B,T,E], experts i32 [B,T,k] and segments i32 [B,T] do not fit");
  return {sums_type(in[0])};
}

Types infer_sums_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "router_sums_grad");
  expect(in[0] == sums_type(in[1]), "router_sums_grad", "dsums are not of the sums' type");
  return {in[1]};
}

Types infer_loss(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "pooled_balance_loss");
  expect(in[0].shape.rank() == 2 && in[0].shape[0] == 2 && attrs_of(attrs).taken > 0,
         "pooled_balance_loss", "sums are not [2,E], or no expert is taken");
  return {scalar_loss(in[0].dtype)};
}

Types infer_loss_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "pooled_balance_loss_grad");
  return {in[1]};
}

void vjp_sums(Backward& backward, const Node& node) {
  const ValueId logits = node.in[0];
  backward.contribute(
      logits, backward.emit(router_sums_grad_op, {},
                            {backward.gradient(node.out[0]), logits, node.in[2]}, logits)[0]);
}

void vjp_loss(Backward& backward, const Node& node) {
  const ValueId sums = node.in[0];
  backward.contribute(sums, backward.emit(pooled_balance_loss_grad_op, node.attrs,
                                          {backward.gradient(node.out[0]), sums}, sums)[0]);
}

// A few operations an element, an exponential among them.
template <int kElements>
Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 4.0 * static_cast<double>(in[kElements].shape.count()),
          .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& attrs) { return print_number("weight", attrs_of(attrs).weight); }

// --- CPU

constexpr int64_t kBlockTokens = 256;  // of which sums are made one by one
constexpr int32_t kPadding = 0;

int64_t workspace_sums(const std::any&, std::span<const Type> in, std::span<const Type>) {
  const int64_t blocks = ceil_div(in[2].shape.count(), kBlockTokens);
  return blocks * 2 * in[0].shape.back() * size_bytes(Dtype::float64);
}

void run_sums_cpu(const KernelCall& call) {
  const int64_t experts = call.in[0].type.shape.back(), taken = call.in[1].type.shape.back(),
                tokens = call.in[2].type.shape.count(), blocks = ceil_div(tokens, kBlockTokens);
  auto* const partial = reinterpret_cast<double*>(call.workspace.data());
  const auto *const chosen = call.in[1].as<int32_t>(), *const segments = call.in[2].as<int32_t>();
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(blocks, [&](int64_t begin, int64_t end) {
      std::vector<double> probabilities(static_cast<size_t>(experts));
      for (int64_t block = begin; block < end; ++block) {
        double *const sums = partial + block * 2 * experts, *const counts = sums + experts;
        std::fill_n(sums, 2 * experts, 0.);
        const int64_t first = block * kBlockTokens;
        for (int64_t token = first; token < std::min(first + kBlockTokens, tokens); ++token) {
          if (segments[token] == kPadding) continue;
          softmax(call.in[0].as<T>() + token * experts, experts, probabilities.data());
          for (int64_t e = 0; e < experts; ++e) sums[e] += probabilities[e];
          for (int64_t i = 0; i < taken; ++i) counts[chosen[token * taken + i]] += 1;
        }
      }
    });
  });
  auto* const out = call.out[0].as<float>();
  for (int64_t i = 0; i < 2 * experts; ++i) {
    double sum = 0;
    for (int64_t block = 0; block < blocks; ++block) sum += partial[block * 2 * experts + i];
    out[i] = static_cast<float>(sum);
  }
}

// dlogits[e] = p[e] (dsums[0,e] - the sum over experts of p dsums[0]).
void run_sums_grad_cpu(const KernelCall& call) {
  const int64_t experts = call.in[1].type.shape.back(), tokens = call.in[2].type.shape.count();
  const auto* const dsums = call.in[0].as<float>();
  const auto* const segments = call.in[2].as<int32_t>();
  with_float_type(call.in[1].type.dtype, [&]<class T>(T) {
    parallel_ranges(tokens, [&](int64_t begin, int64_t end) {
      std::vector<double> probabilities(static_cast<size_t>(experts));
      for (int64_t token = begin; token < end; ++token) {
        T* const dlogits = call.out[0].as<T>() + token * experts;
        if (segments[token] == kPadding) {
          for (int64_t e = 0; e < experts; ++e) store(dlogits[e], 0.f);
          continue;
        }
        softmax(call.in[1].as<T>() + token * experts, experts, probabilities.data());
        double mean = 0;
        for (int64_t e = 0; e < experts; ++e) mean += probabilities[e] * dsums[e];
        for (int64_t e = 0; e < experts; ++e)
          store(dlogits[e], static_cast<float>(probabilities[e] * (dsums[e] - mean)));
      }
    });
  });
}

// weight E / N²
double factor(const Attrs& attrs, const float* counts, int64_t experts) {
  double all = 0;
  for (int64_t e = 0; e < experts; ++e) all += counts[e];
  const double tokens = all / static_cast<double>(attrs.taken);
  return tokens == 0 ? 0 : attrs.weight * static_cast<double>(experts) / (tokens * tokens);
}

void run_loss_cpu(const KernelCall& call) {
  const int64_t experts = call.in[0].type.shape[1];
  const auto *const sums = call.in[0].as<float>(), *const counts = sums + experts;
  double loss = 0;
  for (int64_t e = 0; e < experts; ++e) loss += static_cast<double>(sums[e]) * counts[e];
  *call.out[0].as<float>() =
      static_cast<float>(loss * factor(attrs_of(call.attrs), counts, experts));
}

void run_loss_grad_cpu(const KernelCall& call) {
  const int64_t experts = call.in[1].type.shape[1];
  const float* const counts = call.in[1].as<float>() + experts;
  auto* const dsums = call.out[0].as<float>();
  const double scale = *call.in[0].as<float>() * factor(attrs_of(call.attrs), counts, experts);
  for (int64_t e = 0; e < experts; ++e) dsums[e] = static_cast<float>(scale * counts[e]);
  std::fill_n(dsums + experts, experts, 0.f);
}

// --- composition

// [B,T,1]: 1, or 0 for padding.
at::Tensor counted(const KernelCall& call, int input, at::ScalarType dtype) {
  return tensor(call, call.in[input]).ne(kPadding).to(dtype).unsqueeze(-1);
}

void run_sums_composed(const KernelCall& call) {
  at::Tensor logits = tensor(call, call.in[0]).to(compute_type(call.in[0]));
  at::Tensor is_counted = counted(call, 2, logits.scalar_type());
  at::Tensor out = tensor(call, call.out[0]);
  out[0].copy_((at::softmax(logits, -1) * is_counted).sum(at::IntArrayRef{0, 1}));
  at::Tensor experts = tensor(call, call.in[1]).to(at::kLong);
  at::Tensor counts = at::zeros({logits.size(-1)}, logits.options());
  // Sums of ones are exact in any order.
  counts.scatter_add_(0, experts.flatten(), is_counted.expand(experts.sizes()).flatten());
  out[1].copy_(counts);
}

void run_sums_grad_composed(const KernelCall& call) {
  at::Tensor logits = tensor(call, call.in[1]).to(compute_type(call.in[1]));
  at::Tensor p = at::softmax(logits, -1), dsums = tensor(call, call.in[0])[0];
  at::Tensor mean = (p * dsums).sum(-1, /*keepdim=*/true);
  tensor(call, call.out[0]).copy_(p * (dsums - mean) * counted(call, 2, logits.scalar_type()));
}

// A scalar; 0 where there is no token.
at::Tensor composed_factor(const Attrs& attrs, const at::Tensor& counts) {
  at::Tensor tokens = counts.sum().div_(static_cast<double>(attrs.taken));
  return tokens.ne(0).to(tokens.scalar_type()) *
         (attrs.weight * static_cast<double>(counts.numel())) / tokens.square().clamp_min(1);
}

void run_loss_composed(const KernelCall& call) {
  at::Tensor sums = tensor(call, call.in[0]).to(at::kDouble);
  tensor(call, call.out[0])
      .copy_((sums[0] * sums[1]).sum() * composed_factor(attrs_of(call.attrs), sums[1]));
}

void run_loss_grad_composed(const KernelCall& call) {
  at::Tensor counts = tensor(call, call.in[1])[1].to(at::kDouble);
  at::Tensor dsums = tensor(call, call.out[0]).zero_();
  dsums[0].copy_(counts * composed_factor(attrs_of(call.attrs), counts) *
                 tensor(call, call.in[0]).to(at::kDouble));
}

// A few wide values like the logits, and numbers of 8 bytes like what stands beside them.
template <int kElements>
int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  int64_t bytes = 8 * wide_bytes(in[kElements]) + 4 * kReductionBytes;
  for (const Type& type : in) bytes += 32 * type.shape.count();
  return bytes;
}

}  // namespace

const Op router_sums_op{.name = "router_sums",
                        .infer = infer_sums,
                        .vjp = vjp_sums,
                        .cost = cost<0>,
                        .cpu = {run_sums_cpu, workspace_sums},
                        .cuda = {run_sums_composed, workspace_composed<0>},
                        .reference = {run_sums_composed}};

const Op router_sums_grad_op{.name = "router_sums_grad",
                             .infer = infer_sums_grad,
                             .cost = cost<1>,
                             .cpu = {run_sums_grad_cpu},
                             .cuda = {run_sums_grad_composed, workspace_composed<1>},
                             .reference = {run_sums_grad_composed}};

const Op pooled_balance_loss_op{.name = "pooled_balance_loss",
                                .infer = infer_loss,
                                .vjp = vjp_loss,
                                .cost = cost<0>,
                                .print = print,
                                .cpu = {run_loss_cpu},
                                .cuda = {run_loss_composed, workspace_composed<0>},
                                .reference = {run_loss_composed}};

const Op pooled_balance_loss_grad_op{.name = "pooled_balance_loss_grad",
                                     .infer = infer_loss_grad,
                                     .cost = cost<1>,
                                     .print = print,
                                     .cpu = {run_loss_grad_cpu},
                                     .cuda = {run_loss_grad_composed, workspace_composed<1>},
                                     .reference = {run_loss_grad_composed}};

Var router_sums(Var logits, Var experts, Var segments) {
  return logits.trace->emit(router_sums_op, {}, {logits, experts, segments})[0];
}

Var pooled_balance_loss(Var sums, int64_t taken, double weight) {
  return sums.trace->emit(pooled_balance_loss_op, Attrs{taken, weight}, {sums})[0];
}

}  // namespace longshore::models
