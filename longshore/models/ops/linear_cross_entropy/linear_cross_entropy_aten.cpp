// A composition of ATen's ops.
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "longshore/models/ops/kernels/aten_product.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy_chunks.h"
#include "longshore/models/ops/linear_cross_entropy/wide_product.h"

namespace longshore::models {
namespace {

void run_chunks_composed(const KernelCall& call, const LinearCrossEntropyAttrs& of_loss,
                         const LinearCrossEntropyGradAttrs* attrs) {
  const double cap = of_loss.soft_cap;
  const bool is_each = of_loss.reduction == Reduction::none;
  auto wide = compute_type(call.in[0]);
  at::Tensor x = matrix(call, call.in[0]), weight = tensor(call, call.in[1]);
  int64_t tokens = x.size(0);
  at::Tensor targets = tensor(call, call.in[2]).view({tokens, -1});
  at::Tensor losses = tensor(call, call.out[attrs ? 1 : 0]), dlosses;
  if (attrs) dlosses = tensor(call, call.in[3]);
  if (is_each) losses = losses.view({tokens, -1});
  if (is_each && attrs) dlosses = dlosses.view({tokens, -1});
  int64_t chunk = chunk_tokens(composed_chunk_size(call.target), tokens, weight.size(0));
  at::Tensor loss = at::zeros({}, x.options().dtype(wide));
  const CrossEntropyOperands at = cross_entropy_operands(call.in.size(), attrs);
  at::Tensor dweight, z, z_weight;
  if (at.dweight >= 0) {
    dweight = tensor(call, call.out[at.dweight]);
    if (at.sum >= 0)
      dweight.copy_(tensor(call, call.in[at.sum]));
    else
      dweight.zero_();
  }
  if (at.z >= 0) {
    z = matrix(call, call.in[at.z]);
    z_weight = tensor(call, call.in[at.z + 1]);
  }
  for (int64_t begin = 0; begin < tokens; begin += chunk) {
    int64_t size = std::min(chunk, tokens - begin);
    at::Tensor x_chunk = x.narrow(0, begin, size);
    at::Tensor target = targets.narrow(0, begin, size).to(at::kLong);
    at::Tensor trained = target.ne(kIgnoredTarget), index = target.clamp_min(0);
    trained = trained.logical_and(trained.narrow(1, 0, 1));
    at::Tensor logits = wide_product(call, x_chunk, weight.t(), wide);
    if (z.defined()) logits.add_(wide_product(call, z.narrow(0, begin, size), z_weight.t(), wide));
    at::Tensor slope;
    if (cap > 0) {
      logits.div_(cap).tanh_();
      if (attrs) slope = 1 - logits.square();
      logits.mul_(cap);
    }
    at::Tensor logp = at::log_softmax(logits, -1);
    logits.reset();
    at::Tensor at_target = logp.gather(-1, index).masked_fill_(trained.logical_not(), 0);
    if (is_each)
      losses.narrow(0, begin, size).copy_(at_target.neg_());
    else
      loss.sub_(at_target.sum());
    if (!attrs) continue;
    const at::Tensor dloss =
        (is_each ? dlosses.narrow(0, begin, size) : dlosses).to(wide) * trained;
    at::Tensor dlogits = logp.exp_().mul_(dloss.sum(-1, true));
    dlogits.scatter_add_(-1, index, dloss.neg());
    if (slope.defined()) dlogits.mul_(slope);
    at::Tensor narrow = dlogits.to(x.scalar_type());
    if (dweight.defined())
      dweight.add_(wide_product(call, narrow.t(), x_chunk, dweight.scalar_type()));
    matrix(call, call.out[0]).narrow(0, begin, size).copy_(at::mm(narrow, weight));
    if (at.dz >= 0)
      matrix(call, call.out[at.dz]).narrow(0, begin, size).copy_(at::mm(narrow, z_weight));
  }
  if (!is_each) losses.copy_(loss);
}

}  // namespace

void linear_cross_entropy_composed(const KernelCall& call) {
  run_chunks_composed(call, linear_cross_entropy_attrs(call.attrs), nullptr);
}
void linear_cross_entropy_grad_composed(const KernelCall& call) {
  const LinearCrossEntropyGradAttrs& attrs = linear_cross_entropy_grad_attrs(call.attrs);
  run_chunks_composed(call, attrs.of_loss, &attrs);
}

int64_t linear_cross_entropy_composed_workspace(const std::any&, std::span<const Type> in,
                                                std::span<const Type>) {
  int64_t v = in[1].shape[0], chunk = chunk_tokens(kChunkOnCuda, in[0].shape.rows(), v);
  const int64_t frozen = in.size() > 4 ? 1 : 0;  // their logits, and in a gradient dz
  const int64_t targets = chunk * in[2].shape.count() / in[0].shape.rows();
  return (3 + frozen) * chunk * v * size_bytes(Dtype::float32) + 64 * targets + (1 << 20);
}

int64_t linear_cross_entropy_grad_composed_workspace(const std::any& any, std::span<const Type> in,
                                                     std::span<const Type> out) {
  const LinearCrossEntropyGradAttrs& attrs = linear_cross_entropy_grad_attrs(any);
  int64_t v = in[1].shape[0], chunk = chunk_tokens(kChunkOnCuda, in[0].shape.rows(), v);
  int64_t slopes = attrs.of_loss.soft_cap > 0 ? 2 * chunk * v * size_bytes(Dtype::float32) : 0;
  int64_t dweight = attrs.weight_gradient ? out[2].bytes() : 0;
  int64_t dz = attrs.has_frozen ? in[4].bytes() : 0;
  return linear_cross_entropy_composed_workspace(any, in, out) + slopes + dweight + in[0].bytes() +
         dz;
}

}  // namespace longshore::models
