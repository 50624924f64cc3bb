// Kernels of our own for GPUs, in .cu files, and calls of cuBLASLt and cuDNN. Builds without CUDA
// have none of them, but plan for GPUs all the same: there a record's `run` is null.
#pragma once

#include "longshore/models/ir/op.h"

namespace longshore::models {

#ifdef LONGSHORE_CUDA
inline constexpr bool kHasOwnCudaKernels = true;
#else
inline constexpr bool kHasOwnCudaKernels = false;
#endif

template <auto launch, auto arguments>
void launch_call(const KernelCall& call) {
  launch(arguments(call), call.stream);
}

// An op's kernel, where arguments(call) gives what launch(arguments, stream) takes.
template <auto launch, auto arguments>
constexpr auto custom_kernel() -> void (*)(const KernelCall&) {
  if constexpr (kHasOwnCudaKernels)
    return launch_call<launch, arguments>;
  else
    return nullptr;
}

// An op's kernel, where run(call) takes the call as it is.
template <void (*run)(const KernelCall&)>
constexpr auto cuda_kernel() -> void (*)(const KernelCall&) {
  if constexpr (kHasOwnCudaKernels)
    return run;
  else
    return nullptr;
}

// An op's kernel, where that is run(call, parts...): the parts are launchers and libraries'
// products, which tests replace.
template <auto run, auto... parts>
constexpr auto kernel_of_parts() -> void (*)(const KernelCall&) {
  if constexpr (kHasOwnCudaKernels)
    return [](const KernelCall& call) { run(call, parts...); };
  else
    return nullptr;
}

}  // namespace longshore::models
