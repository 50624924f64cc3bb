// The body of an update rule's kernel on a GPU, and how it is launched.
#pragma once

#include <type_traits>

#include "longshore/models/ops/kernels/block8.h"
#include "longshore/models/ops/kernels/stochastic_rounding.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"
#include "longshore/models/ops/update/update_kernels.h"

namespace longshore::models {

// Element is the rule's (longshore/models/ops/update/rule_loop.h). W is what the weight is stored
// in: float or bfloat16; M what states are: these, or uint8_t for codes with scales.
//
// A warp has a block of 256 elements, which the codes' scales are for. Each of its 32 items is four
// elements and the four that lie 32 further on, which share random numbers with them.
template <class Element, class W, class M>
struct UpdateBody {
  // With up to 96 registers a thread, small blocks fill a multiprocessor better.
  static constexpr int kThreads = 128;
  static constexpr int kLanes = 32;
  static constexpr int kStates = Element::kStates;
  static constexpr bool kRounds = sizeof(W) < 4 || sizeof(M) < 4;
  static constexpr bool kHasScales = std::is_same_v<M, uint8_t>;
  static_assert(kBlock8 == 8 * kLanes && kRoundingPairs == 32);

  UpdateArguments a;
  bool vectors;  // four elements at a time can be read and written

  // States on their way to codes.
  struct Item {
    float states[kStates][2][4];
    uint32_t bits[kStates][2][4];
  };
  // Largest magnitudes, as bits.
  struct Largest {
    uint32_t states[kStates];
    LONGSHORE_DEVICE void take(const Largest& other) {
      for (int s = 0; s < kStates; ++s)
        states[s] = other.states[s] > states[s] ? other.states[s] : states[s];
    }
  };

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const Element rule(scalars());
    const int64_t first = index * (group.threads() / kLanes);
    group.template split<kLanes>([&](auto& part, int number) {
      const int64_t block8 = first + number;
      if (block8 * kBlock8 >= a.count) return;
      // The test is made once for a warp: made for each four elements, it would keep compilers from
      // storing them as one vector.
      if (vectors && (block8 + 1) * kBlock8 <= a.count)
        update_or_keep<true>(part, block8, rule);
      else
        update_or_keep<false>(part, block8, rule);
    });
  }

  template <bool kWhole, class Group>
  LONGSHORE_BODY void update_or_keep(Group& group, int64_t block8, const Element& rule) const {
    if (rule.clip == 0)
      keep<kWhole>(group, block8);
    else
      update<kWhole>(group, block8, rule);
  }

  template <bool kWhole, class Group>
  LONGSHORE_BODY void update(Group& group, int64_t block8, const Element& rule) const {
    auto own = group.template own<Item>();
    group.for_each(kLanes,
                   [&](int64_t lane) { update_item<kWhole>(own[lane], block8, lane, rule); });
    if constexpr (kHasScales) {
      const Largest largest = group.reduce(
          kLanes, Largest{},
          [&](Largest& so_far, int64_t lane) { so_far.take(largest_of(own[lane])); },
          [](Largest& one, const Largest& other) { one.take(other); });
      float scales[kStates];
      for (int s = 0; s < kStates; ++s) scales[s] = block8_scale(largest.states[s]);
      group.once([&] {
        for (int s = 0; s < kStates; ++s) a.states[s].scales[block8] = scales[s];
      });
      group.for_each(kLanes, [&](int64_t lane) {
        const Item& item = own[lane];
        LONGSHORE_UNROLL(2)
        for (int half = 0; half < 2; ++half) {
          const int64_t at = element(block8, lane, half);
          each_state([&](auto s) {
            encode<CodeOf<s>, kWhole>(item.states[s][half], item.bits[s][half], scales[s],
                                      a.states[s].after, at);
          });
        }
      });
    }
  }

  // The format of the codes of state `s`.
  template <int s>
  using CodeOf = std::conditional_t<s == 0, FirstMoment8, SecondMoment8>;

  // Calls `f` with the number of each state, as a constant.
  template <class F>
  static LONGSHORE_DEVICE void each_state(const F& f) {
    f(std::integral_constant<int, 0>{});
    if constexpr (kStates == 2) f(std::integral_constant<int, 1>{});
  }

  LONGSHORE_BODY UpdateScalars scalars() const {
    UpdateScalars s{};
    for (int i = 0; i < 3; ++i) s.numbers[i] = a.numbers[i];
    s.weight_decay = a.weight_decay;
    s.learning_rate = *a.learning_rate;
    s.clip = *a.clip;
    for (int i = 0; i < 2; ++i)
      if (a.scalars[i]) s.scalars[i] = *a.scalars[i];
    return s;
  }

  // The first of an item's four elements; half 1 follows half 0.
  static LONGSHORE_DEVICE int64_t element(int64_t block8, int64_t lane, int half) {
    return block8 * kBlock8 + lane / 8 * kRoundingGroup + lane % 8 * 4 + half * kRoundingPairs;
  }

  template <bool kWhole>
  LONGSHORE_BODY void update_item(Item& item, int64_t block8, int64_t lane,
                                  const Element& rule) const {
    float scales[kStates];
    for (int s = 0; s < kStates; ++s)
      scales[s] = kHasScales ? a.states[s].scales_before[block8] : 0.f;
    // All are read before any is written: what is written may be what is read.
    float gradient[2][4], weight[2][4];
    LONGSHORE_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      const int64_t at = element(block8, lane, half);
      load_floats<kWhole>(a.gradient, at, gradient[half]);
      load_floats<kWhole>(static_cast<const W*>(a.weight_before), at, weight[half]);
      each_state([&](auto s) {
        load_state<CodeOf<s>, kWhole>(a.states[s].before, scales[s], at, item.states[s][half]);
      });
    }
    // Computed while memory answers.
    uint32_t weight_bits[2][4] = {};
    if constexpr (kRounds) draw(block8, lane, item, weight_bits);
    LONGSHORE_UNROLL(2)
    for (int half = 0; half < 2; ++half)
      for (int k = 0; k < 4; ++k) {
        float states[kStates];
        for (int s = 0; s < kStates; ++s) states[s] = item.states[s][half][k];
        rule(gradient[half][k], weight[half][k], states);
        for (int s = 0; s < kStates; ++s) item.states[s][half][k] = states[s];
      }
    LONGSHORE_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      const int64_t at = element(block8, lane, half);
      store_floats<kWhole>(static_cast<W*>(a.weight), at, weight[half], weight_bits[half]);
      if (a.compute) store_nearest<kWhole>(at, weight[half]);
      if constexpr (!kHasScales) {
        for (int s = 0; s < kStates; ++s)
          store_floats<kWhole>(static_cast<M*>(a.states[s].after), at, item.states[s][half],
                               item.bits[s][half]);
      }
    }
  }

  // The step did not count: what is made elsewhere is what was there, but for `compute`.
  template <bool kWhole, class Group>
  LONGSHORE_BODY void keep(Group& group, int64_t block8) const {
    group.for_each(kLanes, [&](int64_t lane) {
      for (int half = 0; half < 2; ++half) {
        const int64_t at = element(block8, lane, half);
        if (a.compute) {
          float weight[4];
          load_floats<kWhole>(static_cast<const W*>(a.weight_before), at, weight);
          store_nearest<kWhole>(at, weight);
        }
        copy<kWhole>(static_cast<const W*>(a.weight_before), static_cast<W*>(a.weight), at);
        for (const UpdateArguments::State* s = a.states; s < a.states + kStates; ++s)
          copy<kWhole>(static_cast<const M*>(s->before), static_cast<M*>(s->after), at);
      }
    });
    if constexpr (kHasScales)
      group.once([&] {
        for (const UpdateArguments::State* s = a.states; s < a.states + kStates; ++s)
          s->scales[block8] = s->scales_before[block8];
      });
  }

  // --- memory: four elements from `at` on; where not all of a block is there, as far as they are

  LONGSHORE_BODY int elements_from(int64_t at) const {
    return at >= a.count ? 0 : at + 4 <= a.count ? 4 : static_cast<int>(a.count - at);
  }

  template <bool kWhole, class T>
  LONGSHORE_BODY void load_four(const T* from, int64_t at, T (&to)[4]) const {
    if constexpr (kWhole) {
      const auto vector = *reinterpret_cast<const Vector<T, 4>*>(from + at);
      for (int k = 0; k < 4; ++k) to[k] = vector.values[k];
    } else {
      for (int k = 0; k < 4; ++k) to[k] = k < elements_from(at) ? from[at + k] : T{};
    }
  }

  template <bool kWhole, class T>
  LONGSHORE_BODY void store_four(T* to, int64_t at, const T (&from)[4]) const {
    if constexpr (kWhole) {
      Vector<T, 4> vector;
      for (int k = 0; k < 4; ++k) vector.values[k] = from[k];
      store_whole(to + at, vector);
    } else {
      for (int k = 0; k < 4; ++k)
        if (k < elements_from(at)) to[at + k] = from[k];
    }
  }

  template <bool kWhole, class T>
  LONGSHORE_BODY void copy(const T* from, T* to, int64_t at) const {
    if (from == to) return;
    T values[4];
    load_four<kWhole>(from, at, values);
    store_four<kWhole>(to, at, values);
  }

  template <bool kWhole, class T>
  LONGSHORE_BODY void load_floats(const T* from, int64_t at, float (&to)[4]) const {
    T values[4];
    load_four<kWhole>(from, at, values);
    for (int k = 0; k < 4; ++k) to[k] = load(values[k]);
  }

  template <class Moment, bool kWhole>
  LONGSHORE_BODY void load_state(const void* from, float scale, int64_t at, float (&to)[4]) const {
    if constexpr (kHasScales) {
      uint8_t codes[4];
      load_four<kWhole>(static_cast<const uint8_t*>(from), at, codes);
      for (int k = 0; k < 4; ++k) to[k] = Moment::decode(codes[k]) * scale;
      if constexpr (!kWhole)
        for (int k = 0; k < 4; ++k)
          if (k >= elements_from(at)) to[k] = 0;  // a NaN scale is not theirs
    } else {
      load_floats<kWhole>(static_cast<const M*>(from), at, to);
    }
  }

  template <bool kWhole>
  LONGSHORE_BODY void store_floats(float* to, int64_t at, const float (&from)[4],
                                   const uint32_t (&)[4]) const {
    store_four<kWhole>(to, at, from);
  }
  template <bool kWhole>
  LONGSHORE_BODY void store_floats(bfloat16* to, int64_t at, const float (&from)[4],
                                   const uint32_t (&random)[4]) const {
    bfloat16 values[4];
    for (int k = 0; k < 4; ++k) store_stochastically(values[k], from[k], random[k] & 0xffff);
    store_four<kWhole>(to, at, values);
  }
  template <bool kWhole>
  LONGSHORE_BODY void store_nearest(int64_t at, const float (&from)[4]) const {
    bfloat16 values[4];
    for (int k = 0; k < 4; ++k) store(values[k], from[k]);
    store_four<kWhole>(a.compute, at, values);
  }

  // --- rounding

  LONGSHORE_BODY void draw(int64_t block8, int64_t lane, Item& item,
                           uint32_t (&weight_bits)[2][4]) const {
    const RoundingStream stream{a.rounding.seed, a.rounding.sequence,
                                static_cast<uint32_t>(*a.step)};
    const int64_t group = a.rounding.first + block8 * kBlock8 + lane / 8 * kRoundingGroup;
    for (int k = 0; k < 4; ++k) {
      const auto pair = static_cast<uint32_t>(group / 2 + lane % 8 * 4 + k);
      const PairBits bits = draw_pair_bits(stream, pair);
      weight_bits[0][k] = bits.low.weight, weight_bits[1][k] = bits.high.weight;
      for (int s = 0; s < kStates; ++s) {
        item.bits[s][0][k] = bits.low.states[s];
        item.bits[s][1][k] = bits.high.states[s];
      }
    }
  }

  static LONGSHORE_DEVICE Largest largest_of(const Item& item) {
    Largest largest{};
    for (int half = 0; half < 2; ++half)
      for (int k = 0; k < 4; ++k) {
        Largest one;
        for (int s = 0; s < kStates; ++s)
          one.states[s] = std::bit_cast<uint32_t>(item.states[s][half][k]) & 0x7fffffff;
        largest.take(one);
      }
    return largest;
  }

  template <class Moment, bool kWhole>
  LONGSHORE_BODY void encode(const float (&values)[4], const uint32_t (&random)[4], float scale,
                             void* to, int64_t at) const {
    uint8_t codes[4] = {};
    if (scale > 0)
      for (int k = 0; k < 4; ++k)
        codes[k] = static_cast<uint8_t>(Moment::encode(values[k], 1.f / scale, random[k]));
    store_four<kWhole>(static_cast<uint8_t*>(to), at, codes);
  }
};

template <class Element, class Launcher>
void launch(const ArgumentsOf<Element>& a, const Launcher& launcher) {
  bool vectors = all_aligned({a.gradient, a.weight_before, a.weight, a.compute});
  for (const UpdateArguments::State& state : a.states)
    vectors = vectors && all_aligned({state.before, state.after});
  auto with_types = [&]<class W, class M>(W, M) {
    using Body = UpdateBody<Element, W, M>;
    const int64_t blocks_of_256 = launcher.template threads<Body>() / Body::kLanes;
    launcher(Body{a, vectors}, ceil_div(a.count, kBlock8 * blocks_of_256));
  };
  auto with_weight = [&]<class W>(W weight) {
    switch (a.format) {
      case StateFormat::float32:
        return with_types(weight, float{});
      case StateFormat::bfloat16:
        return with_types(weight, bfloat16{});
      case StateFormat::block8:
        return with_types(weight, uint8_t{});
    }
  };
  if (a.weight_dtype == Dtype::bfloat16)
    with_weight(bfloat16{});
  else
    with_weight(float{});
}

}  // namespace longshore::models
