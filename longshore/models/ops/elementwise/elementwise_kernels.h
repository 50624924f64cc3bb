// Our custom kernels on a GPU of ops that make each element of one or two outputs out of the same
// element of up to three inputs. All operands have one dtype, float32 or bfloat16, and an output
// may lie where an input does.
#pragma once

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/activations.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

enum class Elementwise : uint8_t {
  clamped_swiglu,
  clamped_swiglu_grad,
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
  float cap = 0;             // of soft_cap and its gradient
  ClampedGate clamped = {};  // of clamped_swiglu and its gradient
  const void* in[3] = {};
  void* out[2] = {};
};

// For functions of inputs alone.
ElementwiseArguments elementwise_arguments(Elementwise function, const KernelCall& call);
ElementwiseArguments clamped_swiglu_arguments(const KernelCall& call);
ElementwiseArguments clamped_swiglu_grad_arguments(const KernelCall& call);
ElementwiseArguments soft_cap_arguments(const KernelCall& call);
ElementwiseArguments soft_cap_grad_arguments(const KernelCall& call);

// Into a cudaStream_t; throws Error when the launch fails.
void launch_elementwise(const ElementwiseArguments& arguments, void* stream);

template <Elementwise function>
ElementwiseArguments arguments_of(const KernelCall& call) {
  return elementwise_arguments(function, call);
}

// What a record says of a function of inputs alone.
template <Elementwise function>
constexpr Kernel own_elementwise() {
  return {custom_kernel<launch_elementwise, arguments_of<function>>()};
}

// --- what is computed: out of one element of each input, one of each output

template <class Activation>
struct Gated {
  static constexpr int kInputs = 2, kOutputs = 1;  // gate, up -> out
  LONGSHORE_DEVICE void operator()(const float* in, float* out) const {
    out[0] = Activation::value(in[0]) * in[1];
  }
};

template <class Activation>
struct GatedGrad {
  static constexpr int kInputs = 3, kOutputs = 2;  // dy, gate, up -> dgate, dup
  LONGSHORE_DEVICE void operator()(const float* in, float* out) const {
    const ValueAndSlope found = Activation::value_and_slope(in[1]);
    out[0] = in[0] * in[2] * found.slope;
    out[1] = in[0] * found.value;
  }
};

struct ClampedGated {
  static constexpr int kInputs = 2, kOutputs = 1;  // gate, up -> out
  ClampedGate gated;
  LONGSHORE_DEVICE void operator()(const float* in, float* out) const {
    out[0] = gated.value(in[0], in[1]);
  }
};

struct ClampedGatedGrad {
  static constexpr int kInputs = 3, kOutputs = 2;  // dy, gate, up -> dgate, dup
  ClampedGate gated;
  LONGSHORE_DEVICE void operator()(const float* in, float* out) const {
    const ClampedGate::Slopes slopes = gated.slopes(in[1], in[2]);
    out[0] = in[0] * slopes.gate;
    out[1] = in[0] * slopes.up;
  }
};

template <class Activation>
struct Activated {
  static constexpr int kInputs = 1, kOutputs = 1;  // x -> y
  LONGSHORE_DEVICE void operator()(const float* in, float* out) const {
    out[0] = Activation::value(in[0]);
  }
};

template <class Activation>
struct ActivatedGrad {
  static constexpr int kInputs = 2, kOutputs = 1;  // dy, x -> dx
  LONGSHORE_DEVICE void operator()(const float* in, float* out) const {
    out[0] = in[0] * Activation::value_and_slope(in[1]).slope;
  }
};

struct SoftCapped {
  static constexpr int kInputs = 1, kOutputs = 1;  // x -> y
  float cap;
  LONGSHORE_DEVICE void operator()(const float* in, float* out) const {
    out[0] = soft_capped(in[0], cap);
  }
};

struct SoftCappedGrad {
  static constexpr int kInputs = 2, kOutputs = 1;  // dy, y -> dx
  float cap;
  LONGSHORE_DEVICE void operator()(const float* in, float* out) const {
    out[0] = in[0] * soft_cap_slope(in[1], cap);
  }
};

// --- how

// A block has a range of vectors. The elements after the last whole vector are the last block's.
template <class Function, class T, int kVector>
struct ElementwiseBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int64_t kVectors = 1024;
  ElementwiseArguments a;
  Function function;

  static int64_t blocks(int64_t count) {
    const int64_t vectors = count / kVector;
    return vectors == 0 ? 1 : ceil_div(vectors, kVectors);
  }

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t all = a.count / kVector, first = index * kVectors;
    const int64_t left = all - first;
    group.for_each(left < kVectors ? left : kVectors,
                   [&](int64_t i) { apply<kVector>((first + i) * kVector); });
    if (left <= kVectors)
      group.for_each(a.count - all * kVector, [&](int64_t i) { apply<1>(all * kVector + i); });
  }

  // To kCount elements from `at` on.
  template <int kCount>
  LONGSHORE_BODY void apply(int64_t at) const {
    float in[Function::kInputs][kCount], out[Function::kOutputs][kCount];
    for (int operand = 0; operand < Function::kInputs; ++operand)
      load_vector(static_cast<const T*>(a.in[operand]) + at, in[operand]);
    for (int k = 0; k < kCount; ++k) {
      float from[Function::kInputs], to[Function::kOutputs];
      for (int operand = 0; operand < Function::kInputs; ++operand) from[operand] = in[operand][k];
      function(from, to);
      for (int operand = 0; operand < Function::kOutputs; ++operand) out[operand][k] = to[operand];
    }
    for (int operand = 0; operand < Function::kOutputs; ++operand)
      store_vector(static_cast<T*>(a.out[operand]) + at, out[operand]);
  }
};

template <class Launcher, class Function>
void launch_function(const ElementwiseArguments& a, const Launcher& launcher,
                     const Function& function) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = all_aligned({a.in[0], a.in[1], a.in[2], a.out[0], a.out[1]});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      using Body = ElementwiseBody<Function, T, kVector>;
      launcher(Body{a, function}, Body::blocks(a.count));
    });
  });
}

template <class Launcher>
void launch(const ElementwiseArguments& a, const Launcher& launcher) {
  switch (a.function) {
    case Elementwise::clamped_swiglu:
      return launch_function(a, launcher, ClampedGated{a.clamped});
    case Elementwise::clamped_swiglu_grad:
      return launch_function(a, launcher, ClampedGatedGrad{a.clamped});
    case Elementwise::geglu:
      return launch_function(a, launcher, Gated<GeluTanh>{});
    case Elementwise::geglu_grad:
      return launch_function(a, launcher, GatedGrad<GeluTanh>{});
    case Elementwise::gelu:
      return launch_function(a, launcher, Activated<GeluTanh>{});
    case Elementwise::gelu_grad:
      return launch_function(a, launcher, ActivatedGrad<GeluTanh>{});
    case Elementwise::soft_cap:
      return launch_function(a, launcher, SoftCapped{a.cap});
    case Elementwise::soft_cap_grad:
      return launch_function(a, launcher, SoftCappedGrad{a.cap});
    case Elementwise::swiglu:
      return launch_function(a, launcher, Gated<Silu>{});
    case Elementwise::swiglu_grad:
      return launch_function(a, launcher, GatedGrad<Silu>{});
  }
}

}  // namespace longshore::models
