// Matrix products by ATen into memory that is there.
#pragma once

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "longshore/models/ops/kernels/aten.h"

namespace longshore::models {

// out = a·b [+ sum], in out's dtype throughout, also where a and b are bfloat16 and out is float32.
// An undefined sum is none. One that lies where out does must be the same tensor: another would be
// copied to itself.
inline void product_into(const KernelCall& call, at::Tensor out, const at::Tensor& sum,
                         const at::Tensor& a, const at::Tensor& b) {
  const at::ScalarType dtype = out.scalar_type();
  if (a.scalar_type() == dtype) {
    sum.defined() ? at::addmm_out(out, sum, a, b) : at::mm_out(out, a, b);
  } else if (is_cuda(call.target)) {
    sum.defined() ? at::addmm_out(out, sum, a, b, dtype) : at::mm_out(out, a, b, dtype);
  } else {
    at::Tensor wide = at::mm(a.to(dtype), b.to(dtype));
    out.copy_(sum.defined() ? sum + wide : wide);
  }
}

}  // namespace longshore::models
