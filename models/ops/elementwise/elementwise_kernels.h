// Our custom kernels on a GPU of ops that make each element of one or two outputs out of the same
// element of up to three inputs. All operands have one dtype, float32 or bfloat16, and an output
// may lie where an input does.
#pragma once

#include "models/ir/op.h"
#include "models/ops/kernels/custom_kernel.h"

namespace longshore::models {

enum class Elementwise : uint8_t {
  geglu,
  geglu_grad,
  gelu,
  gelu_grad,
  soft_cap,
  soft_cap_grad,
  swiglu,
  swiglu_grad,
};

struct ElementwiseArguments {
  Elementwise function;
  Dtype dtype;
  int64_t count;
  float cap = 0;  // of soft_cap and its gradient
  const void* in[3] = {};
  void* out[2] = {};
};

// For functions other than the two of soft caps.
ElementwiseArguments elementwise_arguments(Elementwise function, const KernelCall& call);
ElementwiseArguments soft_cap_arguments(const KernelCall& call);
ElementwiseArguments soft_cap_grad_arguments(const KernelCall& call);

// Into a cudaStream_t; throws Error when the launch fails.
void launch_elementwise(const ElementwiseArguments& arguments, void* stream);

template <Elementwise function>
ElementwiseArguments arguments_of(const KernelCall& call) {
  return elementwise_arguments(function, call);
}

// What a record says of a function without a cap.
template <Elementwise function>
constexpr Kernel own_elementwise() {
  return {custom_kernel<launch_elementwise, arguments_of<function>>()};
}

}  // namespace longshore::models
