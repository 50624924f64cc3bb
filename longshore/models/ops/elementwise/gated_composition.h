// Compositions of gated layers, which make one or two values out of values of the same type, piece
// by piece of the elements.
#pragma once

#include <algorithm>

#include "longshore/base/pieces.h"
#include "longshore/models/ops/kernels/aten.h"

namespace longshore::models {

// f(part, wide) for each piece of the elements: part(ref) is that of an operand, wide(input) that
// of an input in the dtype that is computed in.
template <class F>
void for_each_part(const KernelCall& call, F f) {
  for_each_piece(call.out[0].type.shape.count(), kCompositionElements,
                 [&](int64_t begin, int64_t count) {
                   auto part = [&](const Ref& ref) {
                     return tensor(call, ref).view({-1}).narrow(0, begin, count);
                   };
                   f(part, [&](int i) { return part(call.in[i]).to(compute_type(call.in[i])); });
                 });
}

// Temporaries of a piece, in the dtype that is computed in.
template <int kTemporaries>
int64_t workspace_gated(const std::any&, std::span<const Type>, std::span<const Type> out) {
  return kTemporaries * allocated_bytes(std::min(out[0].shape.count(), kCompositionElements) *
                                        size_bytes(Dtype::float32));
}

}  // namespace longshore::models
