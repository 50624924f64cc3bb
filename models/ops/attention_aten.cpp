// Attention through ATen: flash attention on CUDA in bfloat16, and a composition that makes the
// scores of one head at a time, for everything else.
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "models/ops/aten.h"
#include "models/ops/attention_kernels.h"

namespace longshore::models {
namespace {

int64_t head_dim_of(const std::any& attrs) {
  return std::any_cast<const AttentionAttrs&>(attrs).head_dim;
}

// [B,T,H*D] as [B,T,H,D].
at::Tensor heads(const KernelCall& call, const Ref& ref) {
  const Shape& shape = ref.type.shape;
  int64_t d = head_dim_of(call.attrs);
  return tensor(call, ref).view({shape[0], shape[1], shape[2] / d, d});
}

// Probabilities of one head, [T,T].
at::Tensor masked_scores(const at::Tensor& q, const at::Tensor& k, double scale) {
  at::Tensor hidden = at::ones({q.size(0), q.size(0)}, q.options().dtype(at::kBool)).triu(1);
  return at::mm(q, k.t()).mul_(scale).masked_fill_(hidden, -INFINITY);
}

template <class F>
void each_head(const KernelCall& call, const Ref& q, const Ref& k, F f) {
  int64_t d = head_dim_of(call.attrs), h = q.type.shape[2] / d, g = k.type.shape[2] / d;
  for (int64_t batch = 0; batch < q.type.shape[0]; ++batch)
    for (int64_t head = 0; head < h; ++head) f(batch, head, head / (h / g));
}

}  // namespace

void attention_composed(const KernelCall& call) {
  auto wide = compute_type(call.in[0]);
  double scale = 1 / std::sqrt(static_cast<double>(head_dim_of(call.attrs)));
  at::Tensor q = heads(call, call.in[0]), k = heads(call, call.in[1]), v = heads(call, call.in[2]);
  at::Tensor context = heads(call, call.out[0]), log_sum_exp = tensor(call, call.out[1]);
  each_head(call, call.in[0], call.in[1], [&](int64_t b, int64_t h, int64_t g) {
    auto head = [&](const at::Tensor& t, int64_t i) { return t[b].select(1, i).to(wide); };
    at::Tensor scores = masked_scores(head(q, h), head(k, g), scale);
    at::Tensor lse = at::logsumexp(scores, {-1});
    scores.sub_(lse.unsqueeze(-1)).exp_();
    context[b].select(1, h).copy_(at::mm(scores, head(v, g)));
    log_sum_exp[b][h].copy_(lse);
  });
}

void attention_grad_composed(const KernelCall& call) {
  auto wide = compute_type(call.in[1]);
  double scale = 1 / std::sqrt(static_cast<double>(head_dim_of(call.attrs)));
  at::Tensor dout = heads(call, call.in[0]), q = heads(call, call.in[1]);
  at::Tensor k = heads(call, call.in[2]), v = heads(call, call.in[3]);
  at::Tensor out = heads(call, call.in[4]), log_sum_exp = tensor(call, call.in[5]);
  at::Tensor dq = heads(call, call.out[0]);
  at::Tensor dk = at::zeros_like(k, k.options().dtype(wide)), dv = at::zeros_like(dk);
  each_head(call, call.in[1], call.in[2], [&](int64_t b, int64_t h, int64_t g) {
    auto head = [&](const at::Tensor& t, int64_t i) { return t[b].select(1, i).to(wide); };
    at::Tensor dout_h = head(dout, h), q_h = head(q, h), k_g = head(k, g);
    at::Tensor p = masked_scores(q_h, k_g, scale);
    p.sub_(log_sum_exp[b][h].to(wide).unsqueeze(-1)).exp_();
    at::Tensor delta = (dout_h * head(out, h)).sum(-1, true);
    dv[b].select(1, g).add_(at::mm(p.t(), dout_h));
    at::Tensor ds = at::mm(dout_h, head(v, g).t()).sub_(delta).mul_(p).mul_(scale);
    dq[b].select(1, h).copy_(at::mm(ds, k_g));
    dk[b].select(1, g).add_(at::mm(ds.t(), q_h));
  });
  heads(call, call.out[1]).copy_(dk);
  heads(call, call.out[2]).copy_(dv);
}

#ifdef LONGSHORE_CUDA

void attention_cuda(const KernelCall& call) {
  if (call.in[0].type.dtype != Dtype::bfloat16) return attention_composed(call);
  const Shape& shape = call.in[0].type.shape;
  auto result = at::_flash_attention_forward(
      heads(call, call.in[0]), heads(call, call.in[1]), heads(call, call.in[2]), {}, {}, shape[1],
      shape[1], 0.0, true, false, 1 / std::sqrt(static_cast<double>(head_dim_of(call.attrs))));
  heads(call, call.out[0]).copy_(std::get<0>(result));
  tensor(call, call.out[1]).copy_(std::get<1>(result));
}

void attention_grad_cuda(const KernelCall& call) {
  if (call.in[1].type.dtype != Dtype::bfloat16) return attention_grad_composed(call);
  const Shape& shape = call.in[1].type.shape;
  at::Tensor q = heads(call, call.in[1]);
  // Without dropout the generator's state is not read.
  at::Tensor state = at::empty({2}, q.options().dtype(at::kUInt64));
  at::Tensor unused = at::empty({}, q.options().dtype(at::kUInt64));
  auto result = at::_flash_attention_backward(
      heads(call, call.in[0]), q, heads(call, call.in[2]), heads(call, call.in[3]),
      heads(call, call.in[4]), tensor(call, call.in[5]), {}, {}, shape[1], shape[1], 0.0, true,
      state, unused, 1 / std::sqrt(static_cast<double>(head_dim_of(call.attrs))));
  heads(call, call.out[0]).copy_(std::get<0>(result));
  heads(call, call.out[1]).copy_(std::get<1>(result));
  heads(call, call.out[2]).copy_(std::get<2>(result));
}

#else

void attention_cuda(const KernelCall&) { throw InternalError("built without CUDA"); }
void attention_grad_cuda(const KernelCall&) { throw InternalError("built without CUDA"); }

#endif

// Flash attention allocates its results and the split-softmax partials; the composition a few
// T×T matrices.
int64_t attention_cuda_workspace(const std::any&, std::span<const Type> in,
                                 std::span<const Type> out) {
  int64_t t = in[0].shape[1];
  if (in[0].dtype == Dtype::bfloat16) return 2 * (out[0].bytes() + out[1].bytes()) + (1 << 20);
  return 4 * t * t * size_bytes(Dtype::float32) + 4 * out[0].bytes() + (1 << 20);
}

// dq is summed in float32, and dk, dv exist once for each query head before they are added up.
int64_t attention_grad_cuda_workspace(const std::any&, std::span<const Type> in,
                                      std::span<const Type> out) {
  int64_t t = in[1].shape[1];
  if (in[1].dtype == Dtype::bfloat16)
    return 3 * out[0].bytes() + 2 * out[0].bytes() + 4 * out[0].bytes() + 4 * in[5].bytes() +
           (4 << 20);
  return 6 * t * t * size_bytes(Dtype::float32) + 8 * out[0].bytes() + (1 << 20);
}

}  // namespace longshore::models
