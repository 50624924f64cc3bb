#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy_chunks.h"

#include "longshore/base/round_up.h"

namespace longshore::models {
namespace {

// The sizes that parts have when `count` is cut into them.
std::vector<int64_t> sizes_of_parts(int64_t count, int64_t part) {
  std::vector<int64_t> sizes;
  for (int64_t size : {std::min(count, part), count % part})
    if (size > 0) sizes.push_back(size);
  return sizes;
}

int64_t tokens_of(const TokenShare& share, int64_t tokens, int64_t bytes_of_token) {
  const int64_t most = std::min(share.most, share.most_bytes / bytes_of_token);
  return std::max(share.least, std::min(tokens / share.one_of, most));
}

int64_t aligned(int64_t bytes) { return round_up(bytes, 256); }

}  // namespace

int64_t chunk_tokens(const ChunkSize& size, int64_t tokens, int64_t vocabulary) {
  const int64_t bytes = vocabulary * size_bytes(Dtype::float32);
  const int64_t wanted = std::max(size.logits_bytes / bytes, tokens_of(size.logits, tokens, bytes));
  return std::min(tokens, wanted / size.multiple * size.multiple);
}

CrossEntropyProducts cross_entropy_products(const Type& x, const Type& weight, Dtype gradient,
                                            int64_t tokens, Into logits) {
  int64_t v = weight.shape[0], c = weight.shape[1];
  CrossEntropyProducts p;
  p.logits = {.m = tokens,
              .n = v,
              .k = c,
              .ab = x.dtype,
              .c = Dtype::float32,
              .b_layout = Layout::transposed,
              .into = logits};
  p.dx = {.m = tokens, .n = c, .k = v, .ab = x.dtype, .c = x.dtype};
  p.dweight_first = {
      .m = v, .n = c, .k = tokens, .ab = x.dtype, .c = gradient, .a_layout = Layout::transposed};
  p.dweight = p.dweight_first;
  p.dweight.into = Into::add;
  return p;
}

CrossEntropyProducts frozen_products(std::span<const Type> in, int z, int64_t tokens) {
  return cross_entropy_products(in[z], in[z + 1], Dtype::float32, tokens);
}

CrossEntropyWorkspace cross_entropy_workspace(std::span<const Type> in,
                                              const LinearCrossEntropyGradAttrs* attrs,
                                              const ChunkSize& chunk_size,
                                              ScratchBytes scratch_bytes) {
  const int64_t tokens = in[0].shape.rows(), v = in[1].shape[0];
  const CrossEntropyOperands at = cross_entropy_operands(in.size(), attrs);
  const bool has_sum = at.sum >= 0;
  CrossEntropyWorkspace l{};
  l.chunk = chunk_tokens(chunk_size, tokens, v);
  l.dlogits = l.logits + aligned(l.chunk * v * size_bytes(Dtype::float32));
  const bool narrow = attrs && in[0].dtype == Dtype::bfloat16;
  l.group = l.chunk;
  if (narrow && attrs->weight_gradient) {
    const int64_t wanted = tokens_of(chunk_size.gradients, tokens, v * size_bytes(in[0].dtype));
    l.group = std::min(tokens, std::max(l.chunk, wanted / l.chunk * l.chunk));
  }
  l.losses = l.dlogits + (narrow ? aligned(l.group * v * size_bytes(in[0].dtype)) : 0);
  l.scratch = l.losses + aligned(tokens * size_bytes(Dtype::float32));
  int64_t scratch = 0;
  auto need = [&](const Matmul& matmul) { scratch = std::max(scratch, scratch_bytes(matmul)); };
  auto products_of = [&](int64_t size) {
    return cross_entropy_products(in[0], in[1],
                                  attrs ? attrs->weight_gradient_dtype : Dtype::float32, size,
                                  at.z >= 0 ? Into::add : Into::overwrite);
  };
  for (int64_t group : sizes_of_parts(tokens, l.group)) {
    for (int64_t chunk : sizes_of_parts(group, l.chunk)) {
      if (at.z >= 0) need(frozen_products(in, at.z, chunk).logits);
      need(products_of(chunk).logits);
    }
    if (!attrs) continue;
    const CrossEntropyProducts p = products_of(group);
    need(p.dx);
    if (at.z >= 0) need(frozen_products(in, at.z, group).dx);
    if (!attrs->weight_gradient) continue;
    if (!has_sum && group == l.group) need(p.dweight_first);
    if (has_sum || tokens > l.group) need(p.dweight);
  }
  l.bytes = l.scratch + scratch;
  return l;
}

}  // namespace longshore::models
