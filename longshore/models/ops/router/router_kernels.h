// Our custom kernels on a GPU that choose experts for tokens, and the choice's gradient.
#pragma once

#include <bit>

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/numbers.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/router/router.h"

namespace longshore::models {

struct RouterArguments {
  Dtype dtype;  // of logits: float32 or bfloat16
  RouterScore score;
  bool normalized;
  int64_t tokens, experts, taken;
  const void* logits;  // [tokens, experts]
  float* weights;      // [tokens, taken]
  int32_t* chosen;     // [tokens, taken]
};

struct RouterGradArguments {
  Dtype dtype;  // of logits: float32 or bfloat16
  RouterScore score;
  bool normalized;
  int64_t tokens, experts, taken;
  const float* dweights;  // [tokens, taken]
  const void* logits;     // [tokens, experts]
  const int32_t* chosen;  // [tokens, taken]
  void* dlogits;          // [tokens, experts]
};

RouterArguments router_arguments(const KernelCall& call);
RouterGradArguments router_grad_arguments(const KernelCall& call);
// Into a cudaStream_t; throw Error when the launch fails.
void launch_router(const RouterArguments& arguments, void* stream);
void launch_router_grad(const RouterGradArguments& arguments, void* stream);

// --- bodies, and how they are launched

inline constexpr int kRouterLanes = 32;  // that have a token

// Of larger logits, and then of earlier experts, larger. No two experts' are equal and none is 0,
// so as many experts are found as there are, also among NaNs.
LONGSHORE_INLINE uint64_t router_rank(float logit, int64_t expert) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.f);  // -0 is 0
  const uint32_t ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
  return uint64_t{ordered} << 32 | static_cast<uint32_t>(~expert);
}

// body.token(lanes, token) for those of a block.
template <class Group, class Body>
LONGSHORE_BODY void for_tokens_of(Group& group, int64_t index, int64_t tokens, const Body& body) {
  const int64_t first = index * (group.threads() / kRouterLanes);
  group.template split<kRouterLanes>([&](auto& lanes, int number) {
    if (first + number < tokens) body.token(lanes, first + number);
  });
}

LONGSHORE_INLINE float router_sigmoid(float x) { return divide_fast(1.f, 1.f + exp_fast(-x)); }

template <class T>
struct RouterBody {
  static constexpr int kThreads = kBlockThreads;
  RouterArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    for_tokens_of(group, index, a.tokens, *this);
  }

  template <class Group>
  LONGSHORE_BODY void token(Group& group, int64_t token) const {
    const T* logits = static_cast<const T*>(a.logits) + token * a.experts;
    int32_t* chosen = a.chosen + token * a.taken;
    uint64_t last = ~uint64_t{0};
    float largest = 0, total = 0;
    for (int64_t j = 0; j < a.taken; ++j) {
      last = max(group, a.experts, uint64_t{0}, [&](int64_t e) {
        const uint64_t rank = router_rank(load(logits[e]), e);
        return rank < last ? rank : 0;
      });
      const auto expert = static_cast<int32_t>(~static_cast<uint32_t>(last));
      group.once([&] { chosen[j] = expert; });
      const float logit = load(logits[expert]);
      if (j == 0) largest = logit;
      total += exp_fast(logit - largest);
    }
    group.sync();
    if (a.score == RouterScore::softmax && !a.normalized)
      total = sum(group, a.experts, [&](int64_t e) { return exp_fast(load(logits[e]) - largest); });
    group.for_each(a.taken, [&](int64_t j) {
      const float logit = load(logits[chosen[j]]);
      a.weights[token * a.taken + j] = a.score == RouterScore::sigmoid
                                           ? router_sigmoid(logit)
                                           : exp_fast(logit - largest) / total;
    });
  }
};

template <class T>
struct RouterGradBody {
  static constexpr int kThreads = kBlockThreads;
  RouterGradArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    for_tokens_of(group, index, a.tokens, *this);
  }

  template <class Group>
  LONGSHORE_BODY void token(Group& group, int64_t token) const {
    const T* logits = static_cast<const T*>(a.logits) + token * a.experts;
    const int32_t* chosen = a.chosen + token * a.taken;
    const float* dweights = a.dweights + token * a.taken;
    const bool is_sigmoid = a.score == RouterScore::sigmoid;
    const float largest = load(logits[chosen[0]]);
    float total = 0, mean = 0;  // of the taken experts' exponentials; of their gradients
    for (int64_t j = 0; j < a.taken && !is_sigmoid; ++j) {
      const float exponential = exp_fast(load(logits[chosen[j]]) - largest);
      total += exponential;
      mean += exponential * dweights[j];
    }
    if (!is_sigmoid && !a.normalized)
      total = sum(group, a.experts, [&](int64_t e) { return exp_fast(load(logits[e]) - largest); });
    if (!is_sigmoid) mean /= total;
    T* dlogits = static_cast<T*>(a.dlogits) + token * a.experts;
    group.for_each(a.experts, [&](int64_t e) {
      bool is_taken = false;
      float dweight = 0, gradient = 0;
      for (int64_t j = 0; j < a.taken; ++j)
        if (chosen[j] == e) is_taken = true, dweight = dweights[j];
      if (is_sigmoid) {
        const float weight = router_sigmoid(load(logits[e]));
        if (is_taken) gradient = dweight * weight * (1 - weight);
      } else if (is_taken || !a.normalized) {
        gradient = exp_fast(load(logits[e]) - largest) / total * (dweight - mean);
      }
      store(dlogits[e], gradient);
    });
  }
};

template <class Body, class Launcher>
void launch_on_tokens(const Body& body, const Launcher& launcher) {
  launcher(body, ceil_div(body.a.tokens, launcher.template threads<Body>() / kRouterLanes));
}

template <class Launcher>
void launch(const RouterArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) { launch_on_tokens(RouterBody<T>{a}, launcher); });
}

template <class Launcher>
void launch(const RouterGradArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) { launch_on_tokens(RouterGradBody<T>{a}, launcher); });
}

}  // namespace longshore::models
