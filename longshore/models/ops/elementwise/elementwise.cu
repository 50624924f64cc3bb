#include "longshore/models/ops/elementwise/elementwise_kernels.h"
#include "longshore/models/ops/kernels/cuda_group.cuh"

namespace longshore::models {
namespace {

const char* op_of(Elementwise function) {
  switch (function) {
    case Elementwise::clamped_swiglu:
      return "clamped_swiglu";
    case Elementwise::clamped_swiglu_grad:
      return "clamped_swiglu_grad";
    case Elementwise::geglu:
      return "geglu";
    case Elementwise::geglu_grad:
      return "geglu_grad";
    case Elementwise::gelu:
      return "gelu";
    case Elementwise::gelu_grad:
      return "gelu_grad";
    case Elementwise::soft_cap:
      return "soft_cap";
    case Elementwise::soft_cap_grad:
      return "soft_cap_grad";
    case Elementwise::swiglu:
      return "swiglu";
    case Elementwise::swiglu_grad:
      return "swiglu_grad";
  }
  return "an element-wise op";
}

}  // namespace

void launch_elementwise(const ElementwiseArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, op_of(arguments.function)));
}

}  // namespace longshore::models
