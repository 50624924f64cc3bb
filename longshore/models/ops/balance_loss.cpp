#include "longshore/models/ops/balance_loss.h"

#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "longshore/base/round_up.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/kernels/softmax.h"

namespace longshore::models {
namespace {

struct Attrs {
  double weight;
};

double weight_of(const std::any& attrs) { return std::any_cast<const Attrs&>(attrs).weight; }

// --- records

void expect_routing(const Type& logits, const Type& experts, const char* op) {
  expect(logits.shape.rank() == 3 && experts.dtype == Dtype::int32 &&
             experts.shape.with_back(1) == logits.shape.with_back(1),
         op, "logits [B,T,E] and experts i32 [B,T,k] do not fit");
}

Types infer_balance(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "balance_loss");
  expect_routing(in[0], in[1], "balance_loss");
  return {scalar_loss(in[0].dtype)};
}

Types infer_balance_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "balance_loss_grad");
  expect(in[0] == scalar_loss(in[1].dtype), "balance_loss_grad", "dloss is not the loss's type");
  expect_routing(in[1], in[2], "balance_loss_grad");
  return {in[1]};
}

Types infer_z(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "router_z_loss");
  return {scalar_loss(in[0].dtype)};
}

Types infer_z_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "router_z_loss_grad");
  expect(in[0] == scalar_loss(in[1].dtype), "router_z_loss_grad", "dloss is not the loss's type");
  return {in[1]};
}

void vjp_balance(Backward& backward, const Node& node) {
  const ValueId logits = node.in[0];
  backward.contribute(
      logits, backward.emit(balance_loss_grad_op, node.attrs,
                            {backward.gradient(node.out[0]), logits, node.in[1]}, logits)[0]);
}

void vjp_z(Backward& backward, const Node& node) {
  const ValueId logits = node.in[0];
  backward.contribute(logits, backward.emit(router_z_loss_grad_op, node.attrs,
                                            {backward.gradient(node.out[0]), logits}, logits)[0]);
}

// A few operations a logit, its exponential among them.
template <int kLogits>
Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 4.0 * static_cast<double>(in[kLogits].shape.count()),
          .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& attrs) { return print_number("weight", weight_of(attrs)); }

// --- CPU

constexpr int64_t kBlockTokens = 256;  // of which sums are made one by one

struct Sizes {
  int64_t rows, length, experts, taken;

  Sizes(const Type& logits, const Type& experts_type)
      : rows(logits.shape[0]),
        length(logits.shape[1]),
        experts(logits.shape[2]),
        taken(experts_type.shape[2]) {}

  int64_t blocks() const { return ceil_div(length, kBlockTokens); }  // of a row
};

// Writes the share of a row's tokens that each expert has, f [E].
void count_tokens(const Sizes& s, const int32_t* experts, double* shares) {
  std::fill_n(shares, s.experts, 0.);
  for (int64_t i = 0; i < s.length * s.taken; ++i) shares[experts[i]] += 1;
  for (int64_t e = 0; e < s.experts; ++e) shares[e] /= static_cast<double>(s.length);
}

// Sums of probabilities [B,blocks,E], then shares [B,E].
int64_t workspace_balance(const std::any&, std::span<const Type> in, std::span<const Type>) {
  const Sizes s(in[0], in[1]);
  return s.rows * (s.blocks() + 1) * s.experts * size_bytes(Dtype::float64);
}

void run_balance_cpu(const KernelCall& call) {
  const Sizes s(call.in[0].type, call.in[1].type);
  auto* const sums = reinterpret_cast<double*>(call.workspace.data());
  double* const shares = sums + s.rows * s.blocks() * s.experts;
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(s.rows * s.blocks(), [&](int64_t begin, int64_t end) {
      std::vector<double> probabilities(static_cast<size_t>(s.experts));
      for (int64_t block = begin; block < end; ++block) {
        const int64_t row = block / s.blocks(), first = block % s.blocks() * kBlockTokens;
        double* const sum = sums + block * s.experts;
        std::fill_n(sum, s.experts, 0.);
        for (int64_t t = first; t < std::min(first + kBlockTokens, s.length); ++t) {
          softmax(call.in[0].as<T>() + (row * s.length + t) * s.experts, s.experts,
                  probabilities.data());
          for (int64_t e = 0; e < s.experts; ++e) sum[e] += probabilities[e];
        }
      }
    });
  });
  parallel_ranges(s.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      count_tokens(s, call.in[1].as<int32_t>() + row * s.length * s.taken,
                   shares + row * s.experts);
  });
  double loss = 0;
  for (int64_t row = 0; row < s.rows; ++row)
    for (int64_t block = 0; block < s.blocks(); ++block)
      for (int64_t e = 0; e < s.experts; ++e)
        loss += shares[row * s.experts + e] * sums[(row * s.blocks() + block) * s.experts + e];
  *call.out[0].as<float>() =
      static_cast<float>(weight_of(call.attrs) * static_cast<double>(s.experts) * loss /
                         static_cast<double>(s.rows * s.length));
}

int64_t workspace_balance_grad(const std::any&, std::span<const Type> in, std::span<const Type>) {
  const Sizes s(in[1], in[2]);
  return s.rows * s.experts * size_bytes(Dtype::float64);
}

// dlogits[e] = scale p[e] (f[e] - the sum over experts of p f).
void run_balance_grad_cpu(const KernelCall& call) {
  const Sizes s(call.in[1].type, call.in[2].type);
  auto* const shares = reinterpret_cast<double*>(call.workspace.data());
  parallel_ranges(s.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      count_tokens(s, call.in[2].as<int32_t>() + row * s.length * s.taken,
                   shares + row * s.experts);
  });
  const double scale = *call.in[0].as<float>() * weight_of(call.attrs) *
                       static_cast<double>(s.experts) / static_cast<double>(s.rows * s.length);
  with_float_type(call.in[1].type.dtype, [&]<class T>(T) {
    parallel_ranges(s.rows * s.length, [&](int64_t begin, int64_t end) {
      std::vector<double> probabilities(static_cast<size_t>(s.experts));
      for (int64_t token = begin; token < end; ++token) {
        const double* const f = shares + token / s.length * s.experts;
        softmax(call.in[1].as<T>() + token * s.experts, s.experts, probabilities.data());
        double mean = 0;
        for (int64_t e = 0; e < s.experts; ++e) mean += probabilities[e] * f[e];
        T* const dlogits = call.out[0].as<T>() + token * s.experts;
        for (int64_t e = 0; e < s.experts; ++e)
          store(dlogits[e], static_cast<float>(scale * probabilities[e] * (f[e] - mean)));
      }
    });
  });
}

int64_t workspace_z(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return ceil_div(in[0].shape.rows(), kBlockTokens) * size_bytes(Dtype::float64);
}

void run_z_cpu(const KernelCall& call) {
  const int64_t experts = call.in[0].type.shape.back(), tokens = call.in[0].type.shape.rows();
  const int64_t blocks = ceil_div(tokens, kBlockTokens);
  auto* const sums = reinterpret_cast<double*>(call.workspace.data());
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(blocks, [&](int64_t begin, int64_t end) {
      std::vector<double> probabilities(static_cast<size_t>(experts));
      for (int64_t block = begin; block < end; ++block) {
        sums[block] = 0;
        const int64_t first = block * kBlockTokens;
        for (int64_t token = first; token < std::min(first + kBlockTokens, tokens); ++token) {
          const double z =
              softmax(call.in[0].as<T>() + token * experts, experts, probabilities.data());
          sums[block] += z * z;
        }
      }
    });
  });
  double sum = 0;
  for (int64_t block = 0; block < blocks; ++block) sum += sums[block];
  *call.out[0].as<float>() =
      static_cast<float>(weight_of(call.attrs) * sum / static_cast<double>(tokens));
}

void run_z_grad_cpu(const KernelCall& call) {
  const int64_t experts = call.in[1].type.shape.back(), tokens = call.in[1].type.shape.rows();
  const double scale =
      2 * *call.in[0].as<float>() * weight_of(call.attrs) / static_cast<double>(tokens);
  with_float_type(call.in[1].type.dtype, [&]<class T>(T) {
    parallel_ranges(tokens, [&](int64_t begin, int64_t end) {
      std::vector<double> probabilities(static_cast<size_t>(experts));
      for (int64_t token = begin; token < end; ++token) {
        const double z =
            softmax(call.in[1].as<T>() + token * experts, experts, probabilities.data());
        T* const dlogits = call.out[0].as<T>() + token * experts;
        for (int64_t e = 0; e < experts; ++e)
          store(dlogits[e], static_cast<float>(scale * z * probabilities[e]));
      }
    });
  });
}

// --- composition

at::Tensor wide(const KernelCall& call, int input) {
  return tensor(call, call.in[input]).to(compute_type(call.in[input]));
}

// f [B,E]
at::Tensor shares(const KernelCall& call, int experts_input, const at::Tensor& logits) {
  at::Tensor experts = tensor(call, call.in[experts_input]).to(at::kLong).flatten(1);
  at::Tensor counts = at::zeros({logits.size(0), logits.size(2)}, logits.options());
  // Sums of ones are exact in any order.
  counts.scatter_add_(1, experts, at::ones(experts.sizes(), logits.options()));
  return counts.div_(logits.size(1));
}

void run_balance_composed(const KernelCall& call) {
  at::Tensor logits = wide(call, 0);
  at::Tensor means = at::softmax(logits, -1).mean(1);
  const double scale = weight_of(call.attrs) * static_cast<double>(logits.size(2)) /
                       static_cast<double>(logits.size(0));
  tensor(call, call.out[0]).copy_((means * shares(call, 1, logits)).sum().mul_(scale));
}

void run_balance_grad_composed(const KernelCall& call) {
  at::Tensor logits = wide(call, 1), p = at::softmax(logits, -1);
  at::Tensor f = shares(call, 2, logits).unsqueeze(1);
  const double scale = weight_of(call.attrs) * static_cast<double>(logits.size(2)) /
                       static_cast<double>(logits.size(0) * logits.size(1));
  at::Tensor mean = (p * f).sum(-1, /*keepdim=*/true);
  tensor(call, call.out[0]).copy_(p * (f - mean) * (tensor(call, call.in[0]) * scale));
}

void run_z_composed(const KernelCall& call) {
  at::Tensor z = at::logsumexp(wide(call, 0), -1);
  tensor(call, call.out[0]).copy_(z.square().mean().mul_(weight_of(call.attrs)));
}

void run_z_grad_composed(const KernelCall& call) {
  at::Tensor logits = wide(call, 1), z = at::logsumexp(logits, -1, /*keepdim=*/true);
  const double scale = 2 * weight_of(call.attrs) / static_cast<double>(z.numel());
  tensor(call, call.out[0]).copy_(at::softmax(logits, -1) * z * (tensor(call, call.in[0]) * scale));
}

// A few wide values like the logits, and numbers of 8 bytes like the experts.
template <int kLogits>
int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return 8 * wide_bytes(in[kLogits]) + 32 * in.back().shape.count() + 4 * kReductionBytes;
}

}  // namespace

const Op balance_loss_op{.name = "balance_loss",
                         .infer = infer_balance,
                         .vjp = vjp_balance,
                         .cost = cost<0>,
                         .print = print,
                         .cpu = {run_balance_cpu, workspace_balance},
                         .cuda = {run_balance_composed, workspace_composed<0>},
                         .reference = {run_balance_composed}};

const Op balance_loss_grad_op{.name = "balance_loss_grad",
                              .infer = infer_balance_grad,
                              .cost = cost<1>,
                              .print = print,
                              .cpu = {run_balance_grad_cpu, workspace_balance_grad},
                              .cuda = {run_balance_grad_composed, workspace_composed<1>},
                              .reference = {run_balance_grad_composed}};

const Op router_z_loss_op{.name = "router_z_loss",
                          .infer = infer_z,
                          .vjp = vjp_z,
                          .cost = cost<0>,
                          .print = print,
                          .cpu = {run_z_cpu, workspace_z},
                          .cuda = {run_z_composed, workspace_composed<0>},
                          .reference = {run_z_composed}};

const Op router_z_loss_grad_op{.name = "router_z_loss_grad",
                               .infer = infer_z_grad,
                               .cost = cost<1>,
                               .print = print,
                               .cpu = {run_z_grad_cpu},
                               .cuda = {run_z_grad_composed, workspace_composed<1>},
                               .reference = {run_z_grad_composed}};

Var balance_loss(Var logits, Var experts, double weight) {
  return logits.trace->emit(balance_loss_op, Attrs{weight}, {logits, experts})[0];
}

Var router_z_loss(Var logits, double weight) {
  return logits.trace->emit(router_z_loss_op, Attrs{weight}, {logits})[0];
}

}  // namespace longshore::models
