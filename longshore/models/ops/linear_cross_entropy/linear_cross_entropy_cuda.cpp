// Products by cuBLASLt, a chunk's losses and gradients in one kernel of our own.
#include <algorithm>

#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy_chunks.h"

namespace longshore::models {
namespace {

CrossEntropyWorkspace workspace_cuda(std::span<const Type> in,
                                     const LinearCrossEntropyGradAttrs* attrs) {
  return cross_entropy_workspace(in, attrs, kChunkOnCuda, [](const Matmul& matmul) {
    return cublaslt_workspace_bytes(matmul);
  });
}

void run_chunks_own(const KernelCall& call, const LinearCrossEntropyAttrs& of_loss,
                    const LinearCrossEntropyGradAttrs* attrs, RunProduct run,
                    LaunchCrossEntropyRows launch_rows, LaunchTotalLoss launch_total) {
  const Type &x = call.in[0].type, &weight = call.in[1].type;
  const int64_t tokens = x.shape.rows(), v = weight.shape[0], c = weight.shape[1];
  const int64_t element = size_bytes(x.dtype);
  const std::vector<Type> in = types_of(call.in);
  const CrossEntropyOperands of = cross_entropy_operands(call.in.size(), attrs);
  const bool has_sum = of.sum >= 0, has_frozen = of.z >= 0;
  const Dtype gradient = attrs ? attrs->weight_gradient_dtype : Dtype::float32;
  const CrossEntropyWorkspace l = workspace_cuda(types_of(call.in), attrs);
  auto at = [&](int64_t offset) { return call.workspace.data() + offset; };
  auto x_from = [&](int64_t token) { return call.in[0].as<std::byte>() + token * c * element; };
  const Ref& loss = call.out[attrs ? 1 : 0];
  float* losses = of_loss.reduction == Reduction::none ? loss.as<float>()
                                                       : reinterpret_cast<float*>(at(l.losses));
  std::byte* dlogits = at(l.losses > l.dlogits ? l.dlogits : l.logits);
  auto multiply = [&](const Matmul& product, const void* a, const void* b, const void* sum,
                      void* to) {
    run(product, a, b, sum, to, call.workspace.subspan(l.scratch), call.stream);
  };
  for (int64_t begin = 0; begin < tokens; begin += l.group) {
    const int64_t end = std::min(begin + l.group, tokens);
    for (int64_t token = begin; token < end; token += l.chunk) {
      const int64_t rows = std::min(l.chunk, end - token);
      if (has_frozen)
        multiply(frozen_products(in, of.z, rows).logits,
                 call.in[of.z].as<std::byte>() + token * in[of.z].shape.back() * element,
                 call.in[of.z + 1].data, nullptr, at(l.logits));
      multiply(cross_entropy_products(x, weight, gradient, rows,
                                      has_frozen ? Into::add : Into::overwrite)
                   .logits,
               x_from(token), call.in[1].data, has_frozen ? at(l.logits) : nullptr, at(l.logits));
      CrossEntropyRowsArguments arguments = cross_entropy_rows(call, of_loss, losses, token, rows);
      arguments.logits = reinterpret_cast<float*>(at(l.logits));
      if (attrs) arguments.dlogits = dlogits + (token - begin) * v * element;
      launch_rows(arguments, call.stream);
    }
    if (!attrs) continue;
    const CrossEntropyProducts p = cross_entropy_products(x, weight, gradient, end - begin);
    // The weight's first: dx may take x's place.
    if (attrs->weight_gradient) {
      const bool adds = begin > 0 || has_sum;
      multiply(adds ? p.dweight : p.dweight_first, dlogits, x_from(begin),
               begin > 0 ? call.out[of.dweight].data
               : has_sum ? call.in[of.sum].data
                         : nullptr,
               call.out[of.dweight].data);
    }
    multiply(p.dx, dlogits, call.in[1].data, nullptr,
             call.out[0].as<std::byte>() + begin * c * element);
    if (has_frozen)
      multiply(frozen_products(in, of.z, end - begin).dx, dlogits, call.in[of.z + 1].data, nullptr,
               call.out[of.dz].as<std::byte>() + begin * in[of.z].shape.back() * element);
  }
  if (of_loss.reduction == Reduction::sum)
    launch_total({tokens, losses, loss.as<float>()}, call.stream);
}

}  // namespace

void run_linear_cross_entropy(const KernelCall& call, RunProduct run, LaunchCrossEntropyRows rows,
                              LaunchTotalLoss total) {
  run_chunks_own(call, linear_cross_entropy_attrs(call.attrs), nullptr, run, rows, total);
}

void run_linear_cross_entropy_grad(const KernelCall& call, RunProduct run,
                                   LaunchCrossEntropyRows rows, LaunchTotalLoss total) {
  const LinearCrossEntropyGradAttrs& attrs = linear_cross_entropy_grad_attrs(call.attrs);
  run_chunks_own(call, attrs.of_loss, &attrs, run, rows, total);
}

int64_t linear_cross_entropy_cuda_workspace(const std::any&, std::span<const Type> in,
                                            std::span<const Type>) {
  return workspace_cuda(in, nullptr).bytes;
}
int64_t linear_cross_entropy_grad_cuda_workspace(const std::any& attrs, std::span<const Type> in,
                                                 std::span<const Type>) {
  return workspace_cuda(in, &linear_cross_entropy_grad_attrs(attrs)).bytes;
}

}  // namespace longshore::models
