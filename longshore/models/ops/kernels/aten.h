// Bridge to ATen: views of the executor's memory as tensors. Only sources of ops and kernels
// include this.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include "longshore/base/error.h"
#include "longshore/base/round_up.h"
#include "longshore/models/ir/op.h"

namespace longshore::models {

inline at::ScalarType scalar_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
      return at::kDouble;
    case Dtype::float32:
      return at::kFloat;
    case Dtype::bfloat16:
      return at::kBFloat16;
    case Dtype::int32:
      return at::kInt;
    case Dtype::uint8:
      return at::kByte;
  }
  throw InternalError("scalar_type: unknown dtype");
}

// Elements that a composition works on at a time, so that its temporaries stay small.
inline constexpr int64_t kCompositionElements = int64_t{1} << 23;

// What ATen's allocations of that many bytes take.
inline constexpr int64_t allocated_bytes(int64_t bytes) { return round_up(bytes, 512); }

// A tensor of that shape in float32, and a copy in float32 of what is not float32 already.
inline int64_t wide_bytes(const Type& type) { return allocated_bytes(Type{type.shape}.bytes()); }
inline int64_t widened_bytes(const Type& type) {
  return type.dtype == Dtype::bfloat16 ? wide_bytes(type) : 0;
}

// What a reduction to a scalar allocates: scalars and partial sums.
inline constexpr int64_t kReductionBytes = 1 << 16;

// The memory of `ref`, seen as a tensor of its shape.
inline at::Tensor tensor(const KernelCall& call, const Ref& ref) {
  std::array<int64_t, Shape::kMaxRank> sizes{};
  for (int i = 0; i < ref.type.shape.rank(); ++i) sizes[i] = ref.type.shape[i];
  // Which GPU it is, ATen finds by the address.
  auto device = at::Device(is_cuda(call.target) ? at::kCUDA : at::kCPU);
  return at::from_blob(ref.data, at::IntArrayRef(sizes.data(), ref.type.shape.rank()),
                       at::TensorOptions(scalar_type(ref.type.dtype)).device(device));
}

// The memory of `ref`, seen as the matrix [rows, last dimension].
inline at::Tensor matrix(const KernelCall& call, const Ref& ref) {
  return tensor(call, ref).view({ref.type.shape.rows(), ref.type.shape.back()});
}

// The dtype that reductions of values of this dtype are computed in.
inline at::ScalarType compute_type(const Ref& ref) {
  return ref.type.dtype == Dtype::float64 ? at::kDouble : at::kFloat;
}

}  // namespace longshore::models
