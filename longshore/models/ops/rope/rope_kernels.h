// Our custom kernels of rope and its table on a GPU, and the frequencies, which the CPU's have too.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "longshore/base/device.h"
#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"
#include "longshore/models/ops/rope/rope.h"

namespace longshore::models {

// base^(-i/half), scaled, for i in [0, half): what longshore/models/ops/rope/rope.h says of each
// scaling.
struct RopeFrequencies {
  enum class Scaling : uint8_t { none, linear, llama3, yarn, proportional };

  double base;
  int64_t half;
  Scaling scaling = Scaling::none;
  double factor = 1;
  // What is divided at the first and kept at the second, with mixtures between them: turns in the
  // original length (llama3), or numbers of pairs (yarn). Of proportional ones, pairs from kept_at
  // on do not turn.
  double divided_at = 0, kept_at = 0;
  double original_length = 0;

  LONGSHORE_DEVICE double operator()(int64_t i) const {
    const double frequency = std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
    if (scaling == Scaling::none) return frequency;
    if (scaling == Scaling::linear) return frequency / factor;
    if (scaling == Scaling::proportional) return i < kept_at ? frequency / factor : 0;
    const double at = scaling == Scaling::yarn
                          ? static_cast<double>(i)
                          : original_length * frequency / (2 * std::numbers::pi);
    double kept = (at - divided_at) / (kept_at - divided_at);
    kept = kept > 0 ? std::min(kept, 1.) : 0;  // also where the two are one and this is no number
    return (1 - kept) * frequency / factor + kept * frequency;
  }
};

// What a position's cosines and sines are multiplied by.
struct RopeAmplitude {
  double attention_factor = 1;
  double beta = 0, length = 1, first = 0;  // of the temperature

  LONGSHORE_DEVICE double operator()(int32_t position) const {
    if (beta == 0) return attention_factor;
    return attention_factor * (1 + beta * std::log(1 + std::floor((position + first) / length)));
  }
};

struct RopeTableArguments {
  RopeFrequencies frequencies;
  RopeAmplitude amplitude;
  int64_t tokens;
  const int32_t* positions;
  float *cos, *sin;  // [tokens, half]
};

struct RopeArguments {
  Dtype dtype;  // of x and out, which may be one: float32 or bfloat16
  int64_t tokens, heads, head_dim, half;
  RopePairs pairs;
  const void* x;  // [tokens, heads, head_dim], of which the first 2 half are turned
  const float *cos, *sin;
  float sign;  // of the angles
  void* out;
};

RopeTableArguments rope_table_arguments(const KernelCall& call);
RopeArguments rope_arguments(const KernelCall& call);

// Into a cudaStream_t; throw Error when the launch fails.
void launch_rope_table(const RopeTableArguments& arguments, void* stream);
void launch_rope(const RopeArguments& arguments, void* stream);

// --- bodies, and how they are launched

// A block makes the frequencies once, for a range of tokens.
struct RopeTableBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int64_t kTokens = 64;
  RopeTableArguments a;
  bool has_scratch;  // where not, the frequencies are made for each angle

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t half = a.frequencies.half, first = index * kTokens;
    const int64_t tokens = a.tokens - first < kTokens ? a.tokens - first : kTokens;
    double* frequencies = has_scratch ? group.template scratch<double>() : nullptr;
    if (frequencies) group.for_each(half, [&](int64_t i) { frequencies[i] = a.frequencies(i); });
    group.sync();
    group.for_each(tokens * half, [&](int64_t at) {
      const auto pair = static_cast<uint32_t>(at), pairs = static_cast<uint32_t>(half);
      const int64_t token = first + pair / pairs, i = pair % pairs;
      const int32_t position = a.positions[token];
      const double angle = position * (frequencies ? frequencies[i] : a.frequencies(i));
      const double amplitude = a.amplitude(position);
      a.cos[token * half + i] = static_cast<float>(amplitude * std::cos(angle));
      a.sin[token * half + i] = static_cast<float>(amplitude * std::sin(angle));
    });
  }
};

// A block has a range of tokens; a thread rotates the pairs it reads, a vector of them at a time,
// or copies a vector of what is not turned.
template <class T, int kVector, RopePairs kPairs>
struct RopeBody {
  static constexpr int kThreads = kBlockThreads;
  RopeArguments a;
  int64_t tokens;  // of a block

  // As many tokens as keep all threads of a block busy.
  static int64_t tokens_of_block(const RopeArguments& a) {
    const int64_t vectors = a.heads * ((a.head_dim - a.half) / kVector);
    return vectors < 2 * kThreads ? 2 * kThreads / vectors : 1;
  }

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t first = index * tokens;
    const int64_t here = a.tokens - first < tokens ? a.tokens - first : tokens;
    const auto of_head = static_cast<uint32_t>((a.head_dim - a.half) / kVector);
    const auto of_token = static_cast<uint32_t>(a.heads) * of_head;
    group.for_each(here * of_token, [&](int64_t i) {
      const auto vector = static_cast<uint32_t>(i);
      const int64_t token = first + vector / of_token, head = vector % of_token / of_head;
      const int64_t head_at = (token * a.heads + head) * a.head_dim;
      const int64_t pair = vector % of_head * kVector;
      if (pair < a.half)
        rotate(head_at, token * a.half, pair);
      else
        copy(head_at + a.half + pair);
    });
  }

  // kVector pairs from pair i of a head on.
  LONGSHORE_BODY void rotate(int64_t head, int64_t table, int64_t i) const {
    constexpr bool kAdjacent = kPairs == RopePairs::adjacent;
    const int64_t at = head + (kAdjacent ? 2 * i : i), apart = kAdjacent ? kVector : a.half;
    const T* x = static_cast<const T*>(a.x) + at;
    T* out = static_cast<T*>(a.out) + at;
    float first[kVector], second[kVector], cos[kVector], sin[kVector];
    load_vector(x, first);
    load_vector(x + apart, second);
    load_vector(a.cos + table + i, cos);
    load_vector(a.sin + table + i, sin);
    for (int k = 0; k < kVector; ++k) {
      float& one = kAdjacent ? number(first, second, 2 * k) : first[k];
      float& other = kAdjacent ? number(first, second, 2 * k + 1) : second[k];
      const float s = a.sign * sin[k], before = one;
      one = before * cos[k] - other * s;
      other = other * cos[k] + before * s;
    }
    store_vector(out, first);
    store_vector(out + apart, second);
  }

  // The k'th number of two vectors.
  LONGSHORE_BODY static float& number(float (&first)[kVector], float (&second)[kVector], int k) {
    return k < kVector ? first[k] : second[k - kVector];
  }

  LONGSHORE_BODY void copy(int64_t at) const {
    float values[kVector];
    load_vector(static_cast<const T*>(a.x) + at, values);
    store_vector(static_cast<T*>(a.out) + at, values);
  }
};

template <class Launcher>
void launch(const RopeTableArguments& a, const Launcher& launcher) {
  const int64_t scratch = a.frequencies.half * static_cast<int64_t>(sizeof(double));
  const bool has_scratch = scratch <= kMaxScratchBytes;
  launcher(RopeTableBody{a, has_scratch}, ceil_div(a.tokens, RopeTableBody::kTokens),
           has_scratch ? scratch : 0);
}

template <class Launcher>
void launch(const RopeArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.half % kVectorOf<T> == 0 && a.head_dim % kVectorOf<T> == 0 &&
                     all_aligned({a.x, a.cos, a.sin, a.out});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      auto launch_body = [&]<RopePairs kPairs>() {
        using Body = RopeBody<T, kVector, kPairs>;
        const int64_t tokens = Body::tokens_of_block(a);
        launcher(Body{a, tokens}, ceil_div(a.tokens, tokens));
      };
      if (a.pairs == RopePairs::adjacent)
        launch_body.template operator()<RopePairs::adjacent>();
      else
        launch_body.template operator()<RopePairs::halves>();
    });
  });
}

}  // namespace longshore::models
