#include "longshore/models/ops/attention/attention_sinks.h"

#include <ATen/ops/exp.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "longshore/base/pieces.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

// --- the record

Types infer(const std::any& attrs, std::span<const Type> in) {
  constexpr const char* kName = "attention_sinks_grad";
  expect_inputs(in, 4, 5, kName);
  const Shape &context = in[1].shape, &log_sum_exp = in[2].shape, &sinks = in[3].shape;
  expect(in[0] == in[1] && context.rank() == 3, kName, "gradient and context differ in type");
  expect(sinks.rank() == 1 && in[3].dtype == in[1].dtype && context[2] % sinks[0] == 0, kName,
         "sinks [H] and context [B,T,H*D] do not fit");
  expect(log_sum_exp == Shape{context[0], sinks[0], context[1]}, kName,
         "log-sum-exps are not [B,H,T]");
  return {{sinks, std::any_cast<Dtype>(attrs)}};
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 2.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& attrs) { return name(std::any_cast<Dtype>(attrs)); }

// --- CPU

struct Sizes {
  int64_t b, t, h, d;

  Sizes(const Type& context, const Type& sinks)
      : b(context.shape[0]),
        t(context.shape[1]),
        h(sinks.shape[0]),
        d(context.shape[2] / sinks.shape[0]) {}
};

// Tokens are summed in this many blocks, each in order, and then the blocks in order.
int64_t blocks(const Sizes& s) { return std::min<int64_t>(s.b * s.t, 64); }

// Adds to `sums` [H] what the tokens [begin, end) of the batch say.
template <class T>
LONGSHORE_INLINE void add_body(const Sizes& s, const T* dcontext, const T* context,
                               const float* log_sum_exp, const T* sinks, int64_t begin, int64_t end,
                               float* sums) {
  for (int64_t token = begin; token < end; ++token) {
    const int64_t b = token / s.t, t = token % s.t;
    for (int64_t h = 0; h < s.h; ++h) {
      const int64_t at = (token * s.h + h) * s.d;
      float product = 0;
#pragma omp simd reduction(+ : product)
      for (int64_t i = 0; i < s.d; ++i) product += load(dcontext[at + i]) * load(context[at + i]);
      sums[h] -= product * exp_fast(load(sinks[h]) - log_sum_exp[(b * s.h + h) * s.t + t]);
    }
  }
}

#define LONGSHORE_ADD_TOKENS(T)                                                           \
  LONGSHORE_SIMD void add_tokens(const Sizes& s, const T* dcontext, const T* context,     \
                                 const float* log_sum_exp, const T* sinks, int64_t begin, \
                                 int64_t end, float* sums) {                              \
    add_body(s, dcontext, context, log_sum_exp, sinks, begin, end, sums);                 \
  }
LONGSHORE_ADD_TOKENS(float)
LONGSHORE_ADD_TOKENS(bfloat16)
#undef LONGSHORE_ADD_TOKENS

int64_t workspace_cpu(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return blocks({in[1], in[3]}) * Type{out[0].shape}.bytes();
}

void run_cpu(const KernelCall& call) {
  const Sizes s(call.in[1].type, call.in[3].type);
  const int64_t count = blocks(s), tokens = s.b * s.t;
  auto* partials = reinterpret_cast<float*>(call.workspace.data());
  with_float_type(call.in[1].type.dtype, [&]<class T>(T) {
    parallel_ranges(count, [&](int64_t first, int64_t last) {
      std::fill(partials + first * s.h, partials + last * s.h, 0.f);
      for (int64_t block = first; block < last; ++block)
        add_tokens(s, call.in[0].as<T>(), call.in[1].as<T>(), call.in[2].as<float>(),
                   call.in[3].as<T>(), tokens * block / count, tokens * (block + 1) / count,
                   partials + block * s.h);
    });
  });
  for (int64_t h = 0; h < s.h; ++h) {
    float sum = 0;
    for (int64_t block = 0; block < count; ++block) sum += partials[block * s.h + h];
    call.out[0].as<float>()[h] = call.in.size() > 4 ? call.in[4].as<float>()[h] + sum : sum;
  }
}

// --- composition

int64_t tokens_of_piece(const Sizes& s) {
  return std::clamp<int64_t>(kCompositionElements / (s.h * s.d), 1, s.t);
}

void run_composed(const KernelCall& call) {
  const Sizes s(call.in[1].type, call.in[3].type);
  const auto wide = compute_type(call.in[1]);
  auto heads = [&](const Ref& ref) { return tensor(call, ref).view({s.b, s.t, s.h, s.d}); };
  const at::Tensor dcontext = heads(call.in[0]), context = heads(call.in[1]);
  const at::Tensor log_sum_exp = tensor(call, call.in[2]).transpose(1, 2);  // [B,T,H]
  const at::Tensor sinks = tensor(call, call.in[3]).to(wide);
  at::Tensor sum = at::zeros({s.h}, sinks.options());
  for (int64_t b = 0; b < s.b; ++b)
    for_each_piece(s.t, tokens_of_piece(s), [&](int64_t first, int64_t count) {
      auto part = [&](const at::Tensor& x) { return x[b].narrow(0, first, count); };
      at::Tensor products = part(dcontext).to(wide).mul(part(context)).sum(-1);  // [T,H]
      sum.sub_(products.mul_(at::exp(sinks - part(log_sum_exp))).sum(0));
    });
  if (call.in.size() > 4) sum.add_(tensor(call, call.in[4]));
  tensor(call, call.out[0]).copy_(sum);
}

// Of a piece a copy, products and their sums; and what reductions take.
int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  const Sizes s(in[1], in[3]);
  const int64_t tokens = tokens_of_piece(s);
  return tokens * s.h * (3 * s.d + 5) * size_bytes(Dtype::float32) + (1 << 20);
}

// --- our custom kernel on CUDA

int64_t workspace_own(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  const Sizes s(in[1], in[3]);
  return s.b * attention_sinks_ranges(s.b, s.t) * Type{out[0].shape}.bytes();
}

}  // namespace

AttentionSinksArguments attention_sinks_arguments(const KernelCall& call) {
  const Sizes s(call.out[0].type, call.in[3].type);
  return {.dtype = call.out[0].type.dtype,
          .rows = s.b,
          .length = s.t,
          .heads = s.h,
          .head_dim = s.d,
          .sinks = call.in[3].data,
          .context = call.out[0].data,
          .log_sum_exp = call.out[1].as<float>()};
}

AttentionSinksGradArguments attention_sinks_grad_arguments(const KernelCall& call) {
  const Sizes s(call.in[1].type, call.in[3].type);
  return {.dtype = call.in[1].type.dtype,
          .rows = s.b,
          .length = s.t,
          .heads = s.h,
          .head_dim = s.d,
          .dcontext = call.in[0].data,
          .context = call.in[1].data,
          .log_sum_exp = call.in[2].as<float>(),
          .sinks = call.in[3].data,
          .partials = reinterpret_cast<float*>(call.workspace.data()),
          .so_far = call.in.size() > 4 ? call.in[4].as<float>() : nullptr,
          .dsinks = call.out[0].as<float>()};
}

void add_sinks_composed(const KernelCall& call) {
  const Sizes s(call.out[0].type, call.in[3].type);
  at::Tensor log_sum_exp = tensor(call, call.out[1]);
  const at::Tensor sinks = tensor(call, call.in[3]).to(compute_type(call.in[3])).unsqueeze(-1);
  const at::Tensor with_sinks = at::logaddexp(log_sum_exp, sinks);  // [B,H,T]
  const at::Tensor shares = log_sum_exp.sub_(with_sinks).exp_();
  tensor(call, call.out[0]).view({s.b, s.t, s.h, s.d}).mul_(shares.transpose(1, 2).unsqueeze(-1));
  log_sum_exp.copy_(with_sinks);
}

const Op attention_sinks_grad_op{
    .name = "attention_sinks_grad",
    .infer = infer,
    .cost = cost,
    .print = print,
    .sum_input = 4,
    .cpu = {run_cpu, workspace_cpu},
    .cuda = {custom_kernel<launch_attention_sinks_grad, attention_sinks_grad_arguments>(),
             workspace_own},
    .cuda_composed = {run_composed, workspace_composed},
    .reference = {run_composed}};

}  // namespace longshore::models
