// How compositions of ATen's ops make logits: a chunk of positions at a time, in the dtype of the
// losses.
#pragma once

#include <ATen/ops/mm.h>

#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy_chunks.h"

namespace longshore::models {

inline const ChunkSize& composed_chunk_size(Target target) {
  return is_cuda(target) ? kChunkOnCuda : kChunkOnCpu;
}

inline at::Tensor wide_product(const KernelCall& call, const at::Tensor& a, const at::Tensor& b,
                               at::ScalarType dtype) {
  if (a.scalar_type() == dtype) return at::mm(a, b);
  if (is_cuda(call.target)) return at::mm(a, b, dtype);
  return at::mm(a.to(dtype), b.to(dtype));
}

}  // namespace longshore::models
