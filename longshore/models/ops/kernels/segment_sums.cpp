#include "longshore/models/ops/kernels/segment_sums.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>

namespace longshore::models {
namespace {

// Where each segment ends, by its place.
at::Tensor ends_of(const at::Tensor& segments) {
  const int64_t t = segments.size(1);
  const at::Tensor ascending = at::where(segments.gt(0), segments, t + 1);
  const at::Tensor numbers =
      at::arange(1, t + 1, segments.options()).expand(segments.sizes()).contiguous();
  return at::searchsorted(ascending.contiguous(), numbers, false, true);
}

}  // namespace

at::Tensor segment_sums(const at::Tensor& values, const at::Tensor& segments) {
  return at::constant_pad_nd(at::cumsum(values, 1, at::kDouble), {1, 0})
      .gather(1, at::constant_pad_nd(ends_of(segments), {1, 0}))
      .diff(1, 1);
}

at::Tensor of_segments(const at::Tensor& by_place, const at::Tensor& segments) {
  return by_place.gather(1, segments.to(at::kLong).sub_(1).clamp_min_(0));
}

}  // namespace longshore::models
