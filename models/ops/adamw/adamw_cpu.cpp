#include <algorithm>
#include <cstring>

#include "base/round_up.h"
#include "models/ops/adamw/adamw_element.h"
#include "models/ops/adamw/adamw_kernels.h"
#include "models/ops/kernels/block8.h"
#include "models/ops/kernels/simd.h"
#include "models/ops/kernels/stochastic_rounding.h"

namespace longshore::models {
namespace {

template <class T>
LONGSHORE_INLINE void adamw_body(const float* gradient, const float* weight_in, const float* m_in,
                                 const float* v_in, float* weight, float* m, float* v, T* compute,
                                 int64_t count, AdamWFactors factors) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float updated = weight_in[i], first = m_in[i], second = v_in[i];
    adamw_element(factors, gradient[i], updated, first, second);
    m[i] = first;
    v[i] = second;
    weight[i] = updated;
    if (compute) store(compute[i], updated);
  }
}

LONGSHORE_SIMD void adamw_range(const float* gradient, const float* weight_in, const float* m_in,
                                const float* v_in, float* weight, float* m, float* v,
                                bfloat16* compute, int64_t count, const AdamWFactors& factors) {
  if (compute)
    adamw_body(gradient, weight_in, m_in, v_in, weight, m, v, compute, count, factors);
  else
    adamw_body<bfloat16>(gradient, weight_in, m_in, v_in, weight, m, v, nullptr, count, factors);
}

// --- states that are not float32, a block of 256 at a time

constexpr int64_t kBlock = kBlock8;
static_assert(kBlock == RoundingBits::kCount);

LONGSHORE_SIMD void widen(const bfloat16* from, float* to, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = load(from[i]);
}

LONGSHORE_SIMD void narrow(const float* from, const uint32_t* random, bfloat16* to, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store_stochastically(to[i], from[i], random[i] & 0xffff);
}

LONGSHORE_SIMD void decode_m(const uint8_t* codes, float scale, float* values, int64_t count) {
  decode_block8<FirstMoment8>(codes, scale, values, count);
}
LONGSHORE_SIMD void decode_v(const uint8_t* codes, float scale, float* values, int64_t count) {
  decode_block8<SecondMoment8>(codes, scale, values, count);
}
LONGSHORE_SIMD float encode_m(const float* values, const uint32_t* random, uint8_t* codes,
                              int64_t count) {
  return encode_block8<FirstMoment8>(values, random, codes, count);
}
LONGSHORE_SIMD float encode_v(const float* values, const uint32_t* random, uint8_t* codes,
                              int64_t count) {
  return encode_block8<SecondMoment8>(values, random, codes, count);
}

// One part of the state (weight, m or v) as it lies in memory, seen a block at a time as float32:
// in place where it is float32, else in `room`.
class State {
 public:
  using Decode = void (*)(const uint8_t*, float, float*, int64_t);
  using Encode = float (*)(const float*, const uint32_t*, uint8_t*, int64_t);

  State(const KernelCall& call, int input, int scale, Decode decode, Encode encode)
      : from_(call.in[input]),
        to_(call.out[AdamWOperands::output(input)]),
        decode_(decode),
        encode_(encode) {
    if (scale < 0) return;
    scale_from_ = call.in[scale].as<float>();
    scale_to_ = call.out[AdamWOperands::output(scale)].as<float>();
  }

  const float* read(int64_t block, int64_t count, float* room) const {
    int64_t at = block * kBlock;
    switch (from_.type.dtype) {
      case Dtype::float32:
        return from_.as<float>() + at;
      case Dtype::bfloat16:
        widen(from_.as<bfloat16>() + at, room, count);
        return room;
      default:
        decode_(from_.as<uint8_t>() + at, scale_from_[block], room, count);
        return room;
    }
  }

  // Where the updated values are computed, and from there are rounded to where they stay.
  float* updated(int64_t block, float* room) const {
    return to_.type.dtype == Dtype::float32 ? to_.as<float>() + block * kBlock : room;
  }
  void write(int64_t block, int64_t count, const float* room, const uint32_t* random) const {
    int64_t at = block * kBlock;
    if (to_.type.dtype == Dtype::bfloat16)
      narrow(room, random, to_.as<bfloat16>() + at, count);
    else if (to_.type.dtype == Dtype::uint8)
      scale_to_[block] = encode_(room, random, to_.as<uint8_t>() + at, count);
  }

 private:
  Ref from_, to_;
  const float* scale_from_ = nullptr;
  float* scale_to_ = nullptr;
  Decode decode_;
  Encode encode_;
};

struct Room {
  alignas(64) float weight[kBlock];
  alignas(64) float m[kBlock];
  alignas(64) float v[kBlock];
};

void run_rounded(const KernelCall& call, const AdamWOperands& at, const AdamWFactors& factors,
                 bfloat16* compute) {
  const Rounding& rounding = adamw_attrs(call.attrs).rounding;
  RoundingStream stream{rounding.seed, rounding.sequence,
                        static_cast<uint32_t>(*call.in[at.step()].as<int32_t>())};
  const State weight(call, at.kWeight, -1, nullptr, nullptr);
  const State m(call, at.kM, at.m_scale(), decode_m, encode_m);
  const State v(call, at.v(), at.v_scale(), decode_v, encode_v);
  const float* gradient = call.in[at.kGradient].as<float>();
  int64_t count = call.in[at.kGradient].type.shape.count();

  parallel_ranges(ceil_div(count, kBlock), [&](int64_t begin, int64_t end) {
    Room room;
    RoundingBits bits;
    for (int64_t block = begin; block < end; ++block) {
      int64_t start = block * kBlock, size = std::min(kBlock, count - start);
      adamw_range(gradient + start, weight.read(block, size, room.weight),
                  m.read(block, size, room.m), v.read(block, size, room.v),
                  weight.updated(block, room.weight), m.updated(block, room.m),
                  v.updated(block, room.v), compute ? compute + start : nullptr, size, factors);
      draw_rounding_bits(stream, rounding.first + start, bits);
      weight.write(block, size, room.weight, bits.weight);
      m.write(block, size, room.m, bits.m);
      v.write(block, size, room.v, bits.v);
    }
  });
}

void run_float32(const KernelCall& call, const AdamWOperands& at, const AdamWFactors& factors,
                 bfloat16* compute) {
  auto in = [&](int i) { return call.in[i].as<float>(); };
  auto out = [&](int i) { return call.out[at.output(i)].as<float>(); };
  parallel_ranges(call.in[0].type.shape.count(), [&](int64_t begin, int64_t end) {
    adamw_range(in(at.kGradient) + begin, in(at.kWeight) + begin, in(at.kM) + begin,
                in(at.v()) + begin, out(at.kWeight) + begin, out(at.kM) + begin,
                out(at.v()) + begin, compute ? compute + begin : nullptr, end - begin, factors);
  });
}

LONGSHORE_SIMD void round_to(bfloat16* to, const float* from, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(to[i], from[i]);
}

void keep(const KernelCall& call, const AdamWOperands& at, bfloat16* compute) {
  for (int i = 0; i < at.states(); ++i) {
    const Ref &from = call.in[at.kWeight + i], &to = call.out[i];
    if (to.data != from.data) std::memcpy(to.data, from.data, to.type.bytes());
  }
  if (!compute) return;
  const float* weight = call.in[at.kWeight].as<float>();
  parallel_ranges(call.in[at.kWeight].type.shape.count(), [&](int64_t begin, int64_t end) {
    round_to(compute + begin, weight + begin, end - begin);
  });
}

}  // namespace

void adamw_cpu(const KernelCall& call) {
  const AdamW& h = adamw_attrs(call.attrs).hyperparameters;
  AdamWOperands at(call.in.size());
  auto scalar = [&](int i) { return *call.in[at.learning_rate() + i].as<float>(); };
  const AdamWFactors factors(static_cast<float>(h.b1), static_cast<float>(h.b2),
                             static_cast<float>(h.epsilon), static_cast<float>(h.weight_decay),
                             scalar(0), scalar(1), scalar(2), scalar(3));
  bool copies = std::ssize(call.out) > at.states();
  bfloat16* compute = copies ? call.out.back().as<bfloat16>() : nullptr;
  if (factors.clip == 0) return keep(call, at, compute);
  (at.rounds() ? run_rounded : run_float32)(call, at, factors, compute);
}

}  // namespace longshore::models
