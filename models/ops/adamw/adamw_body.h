// The body of AdamW's kernel on a GPU, and how it is launched.
#pragma once

#include <type_traits>

#include "models/ops/adamw/adamw_element.h"
#include "models/ops/adamw/adamw_kernels.h"
#include "models/ops/kernels/block8.h"
#include "models/ops/kernels/stochastic_rounding.h"
#include "models/ops/kernels/thread_group.h"
#include "models/ops/kernels/vectors.h"

namespace longshore::models {

// W is what the weight is stored in: float or bfloat16; M what the moments are: these, or uint8_t
// for codes with scales.
//
// A warp has a block of 256 elements, which the codes' scales are for. Each of its 32 items is four
// elements and the four that lie 32 further on, which share random numbers with them.
template <class W, class M>
struct AdamWBody {
  // With up to 96 registers a thread, small blocks fill a multiprocessor better.
  static constexpr int kThreads = 128;
  static constexpr int kLanes = 32;
  static constexpr bool kRounds = sizeof(W) < 4 || sizeof(M) < 4;
  static constexpr bool kHasScales = std::is_same_v<M, uint8_t>;
  static_assert(kBlock8 == 8 * kLanes && kRoundingPairs == 32);

  AdamWArguments a;
  bool vectors;  // four elements at a time can be read and written

  // Moments on their way to codes.
  struct Item {
    float m[2][4], v[2][4];
    uint32_t m_bits[2][4], v_bits[2][4];
  };
  // Largest magnitudes, as bits.
  struct Largest {
    uint32_t m, v;
    LONGSHORE_DEVICE void take(const Largest& other) {
      m = other.m > m ? other.m : m;
      v = other.v > v ? other.v : v;
    }
  };

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const AdamWFactors factors(a.b1, a.b2, a.epsilon, a.decay, *a.learning_rate, *a.correction_1,
                               *a.correction_2, *a.clip);
    const int64_t first = index * (group.threads() / kLanes);
    group.template split<kLanes>([&](auto& part, int number) {
      const int64_t block8 = first + number;
      if (block8 * kBlock8 >= a.count) return;
      // The test is made once for a warp: made for each four elements, it would keep compilers from
      // storing them as one vector.
      if (vectors && (block8 + 1) * kBlock8 <= a.count)
        update_or_keep<true>(part, block8, factors);
      else
        update_or_keep<false>(part, block8, factors);
    });
  }

  template <bool kWhole, class Group>
  LONGSHORE_BODY void update_or_keep(Group& group, int64_t block8,
                                     const AdamWFactors& factors) const {
    if (factors.clip == 0)
      keep<kWhole>(group, block8);
    else
      update<kWhole>(group, block8, factors);
  }

  template <bool kWhole, class Group>
  LONGSHORE_BODY void update(Group& group, int64_t block8, const AdamWFactors& factors) const {
    auto own = group.template own<Item>();
    group.for_each(kLanes,
                   [&](int64_t lane) { update_item<kWhole>(own[lane], block8, lane, factors); });
    if constexpr (kHasScales) {
      const Largest largest = group.reduce(
          kLanes, Largest{0, 0},
          [&](Largest& so_far, int64_t lane) { so_far.take(largest_of(own[lane])); },
          [](Largest& one, const Largest& other) { one.take(other); });
      const float m_scale = block8_scale(largest.m), v_scale = block8_scale(largest.v);
      group.once([&] {
        a.m_scale[block8] = m_scale;
        a.v_scale[block8] = v_scale;
      });
      group.for_each(kLanes, [&](int64_t lane) {
        const Item& item = own[lane];
        LONGSHORE_UNROLL(2)
        for (int half = 0; half < 2; ++half) {
          const int64_t at = element(block8, lane, half);
          encode<FirstMoment8, kWhole>(item.m[half], item.m_bits[half], m_scale, a.m, at);
          encode<SecondMoment8, kWhole>(item.v[half], item.v_bits[half], v_scale, a.v, at);
        }
      });
    }
  }

  // The first of an item's four elements; half 1 follows half 0.
  static LONGSHORE_DEVICE int64_t element(int64_t block8, int64_t lane, int half) {
    return block8 * kBlock8 + lane / 8 * kRoundingGroup + lane % 8 * 4 + half * kRoundingPairs;
  }

  template <bool kWhole>
  LONGSHORE_BODY void update_item(Item& item, int64_t block8, int64_t lane,
                                  const AdamWFactors& factors) const {
    const float m_scale = kHasScales ? a.m_scale_before[block8] : 0.f;
    const float v_scale = kHasScales ? a.v_scale_before[block8] : 0.f;
    // All are read before any is written: what is written may be what is read.
    float gradient[2][4], weight[2][4];
    LONGSHORE_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      const int64_t at = element(block8, lane, half);
      load_floats<kWhole>(a.gradient, at, gradient[half]);
      load_floats<kWhole>(static_cast<const W*>(a.weight_before), at, weight[half]);
      load_moment<FirstMoment8, kWhole>(a.m_before, m_scale, at, item.m[half]);
      load_moment<SecondMoment8, kWhole>(a.v_before, v_scale, at, item.v[half]);
    }
    // Computed while memory answers.
    uint32_t weight_bits[2][4] = {};
    if constexpr (kRounds) draw(block8, lane, item, weight_bits);
    LONGSHORE_UNROLL(2)
    for (int half = 0; half < 2; ++half)
      for (int k = 0; k < 4; ++k)
        adamw_element(factors, gradient[half][k], weight[half][k], item.m[half][k],
                      item.v[half][k]);
    LONGSHORE_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      const int64_t at = element(block8, lane, half);
      store_floats<kWhole>(static_cast<W*>(a.weight), at, weight[half], weight_bits[half]);
      if (a.compute) store_nearest<kWhole>(at, weight[half]);
      if constexpr (!kHasScales) {
        store_floats<kWhole>(static_cast<M*>(a.m), at, item.m[half], item.m_bits[half]);
        store_floats<kWhole>(static_cast<M*>(a.v), at, item.v[half], item.v_bits[half]);
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
        copy<kWhole>(static_cast<const M*>(a.m_before), static_cast<M*>(a.m), at);
        copy<kWhole>(static_cast<const M*>(a.v_before), static_cast<M*>(a.v), at);
      }
    });
    if constexpr (kHasScales)
      group.once([&] {
        a.m_scale[block8] = a.m_scale_before[block8];
        a.v_scale[block8] = a.v_scale_before[block8];
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
  LONGSHORE_BODY void load_moment(const void* from, float scale, int64_t at, float (&to)[4]) const {
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
      item.m_bits[0][k] = bits.low.m, item.m_bits[1][k] = bits.high.m;
      item.v_bits[0][k] = bits.low.v, item.v_bits[1][k] = bits.high.v;
    }
  }

  static LONGSHORE_DEVICE Largest largest_of(const Item& item) {
    Largest largest{0, 0};
    for (int half = 0; half < 2; ++half)
      for (int k = 0; k < 4; ++k)
        largest.take({std::bit_cast<uint32_t>(item.m[half][k]) & 0x7fffffff,
                      std::bit_cast<uint32_t>(item.v[half][k]) & 0x7fffffff});
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

template <class Launcher>
void launch(const AdamWArguments& a, const Launcher& launcher) {
  const bool vectors = all_aligned(
      {a.gradient, a.weight_before, a.m_before, a.v_before, a.weight, a.m, a.v, a.compute});
  auto with_types = [&]<class W, class M>(W, M) {
    using Body = AdamWBody<W, M>;
    const int64_t blocks_of_256 = launcher.template threads<Body>() / Body::kLanes;
    launcher(Body{a, vectors}, ceil_div(a.count, kBlock8 * blocks_of_256));
  };
  auto with_weight = [&]<class W>(W weight) {
    switch (a.moments) {
      case MomentFormat::float32:
        return with_types(weight, float{});
      case MomentFormat::bfloat16:
        return with_types(weight, bfloat16{});
      case MomentFormat::block8:
        return with_types(weight, uint8_t{});
    }
  };
  if (a.weight_dtype == Dtype::bfloat16)
    with_weight(bfloat16{});
  else
    with_weight(float{});
}

}  // namespace longshore::models
