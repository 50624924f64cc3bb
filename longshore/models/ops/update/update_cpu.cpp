#include <algorithm>
#include <cstring>
#include <vector>

#include "longshore/base/round_up.h"
#include "longshore/models/ops/kernels/block8.h"
#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/kernels/stochastic_rounding.h"
#include "longshore/models/ops/update/update_kernels.h"

namespace longshore::models {
namespace {

// --- what is not float32, a block of 256 at a time

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

LONGSHORE_SIMD void decode_first(const uint8_t* codes, float scale, float* values, int64_t count) {
  decode_block8<FirstMoment8>(codes, scale, values, count);
}
LONGSHORE_SIMD void decode_second(const uint8_t* codes, float scale, float* values, int64_t count) {
  decode_block8<SecondMoment8>(codes, scale, values, count);
}
LONGSHORE_SIMD float encode_first(const float* values, const uint32_t* random, uint8_t* codes,
                                  int64_t count) {
  return encode_block8<FirstMoment8>(values, random, codes, count);
}
LONGSHORE_SIMD float encode_second(const float* values, const uint32_t* random, uint8_t* codes,
                                   int64_t count) {
  return encode_block8<SecondMoment8>(values, random, codes, count);
}

// The weight or a state as it lies in memory, seen a block at a time as float32: in place where it
// is float32, else in `room`.
class Stored {
 public:
  Stored(const KernelCall& call, int input, int scales, bool is_second)
      : from_(call.in[input]),
        to_(call.out[UpdatePlaces::output(input)]),
        decode_(is_second ? decode_second : decode_first),
        encode_(is_second ? encode_second : encode_first) {
    if (scales < 0) return;
    scales_from_ = call.in[scales].as<float>();
    scales_to_ = call.out[UpdatePlaces::output(scales)].as<float>();
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
        decode_(from_.as<uint8_t>() + at, scales_from_[block], room, count);
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
      scales_to_[block] = encode_(room, random, to_.as<uint8_t>() + at, count);
  }

 private:
  Ref from_, to_;
  const float* scales_from_ = nullptr;
  float* scales_to_ = nullptr;
  void (*decode_)(const uint8_t*, float, float*, int64_t);
  float (*encode_)(const float*, const uint32_t*, uint8_t*, int64_t);
};

struct Room {
  alignas(64) float weight[kBlock];
  alignas(64) float states[2][kBlock];
};

void run_rounded(const KernelCall& call, RangeUpdate range, const UpdateScalars& scalars,
                 bfloat16* compute) {
  const UpdatePlaces at = update_places(call);
  const Rounding& rounding = update_attrs(call.attrs).rounding;
  RoundingStream stream{rounding.seed, rounding.sequence,
                        static_cast<uint32_t>(*call.in[at.step()].as<int32_t>())};
  const Stored weight(call, at.kWeight, -1, false);
  std::vector<Stored> states;
  for (int i = 0; i < at.states(); ++i)
    states.emplace_back(call, at.state(i), at.scales(i), i == 1);
  const float* gradient = call.in[at.kGradient].as<float>();
  int64_t count = call.in[at.kGradient].type.shape.count();

  parallel_ranges(ceil_div(count, kBlock), [&](int64_t begin, int64_t end) {
    Room room;
    RoundingBits bits;
    for (int64_t block = begin; block < end; ++block) {
      int64_t start = block * kBlock, size = std::min(kBlock, count - start);
      UpdateRange part{.gradient = gradient + start,
                       .weight_before = weight.read(block, size, room.weight),
                       .states_before = {},
                       .weight = weight.updated(block, room.weight),
                       .states = {},
                       .compute = compute ? compute + start : nullptr,
                       .count = size};
      for (size_t i = 0; i < states.size(); ++i) {
        part.states_before[i] = states[i].read(block, size, room.states[i]);
        part.states[i] = states[i].updated(block, room.states[i]);
      }
      range(part, scalars);
      draw_rounding_bits(stream, rounding.first + start, bits);
      weight.write(block, size, room.weight, bits.weight);
      for (size_t i = 0; i < states.size(); ++i)
        states[i].write(block, size, room.states[i], bits.states[i]);
    }
  });
}

void run_float32(const KernelCall& call, RangeUpdate range, const UpdateScalars& scalars,
                 bfloat16* compute) {
  const UpdatePlaces at = update_places(call);
  auto in = [&](int i) { return call.in[i].as<float>(); };
  auto out = [&](int i) { return call.out[at.output(i)].as<float>(); };
  parallel_ranges(call.in[0].type.shape.count(), [&](int64_t begin, int64_t end) {
    UpdateRange part{.gradient = in(at.kGradient) + begin,
                     .weight_before = in(at.kWeight) + begin,
                     .states_before = {},
                     .weight = out(at.kWeight) + begin,
                     .states = {},
                     .compute = compute ? compute + begin : nullptr,
                     .count = end - begin};
    for (int i = 0; i < at.states(); ++i) {
      part.states_before[i] = in(at.state(i)) + begin;
      part.states[i] = out(at.state(i)) + begin;
    }
    range(part, scalars);
  });
}

LONGSHORE_SIMD void round_to(bfloat16* to, const float* from, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(to[i], from[i]);
}

void keep(const KernelCall& call, bfloat16* compute) {
  const UpdatePlaces at = update_places(call);
  for (int i = 0; i < at.kept(); ++i) {
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

void run_update_cpu(const KernelCall& call, RangeUpdate range) {
  const Optimizer& optimizer = update_attrs(call.attrs).optimizer;
  const UpdatePlaces at = update_places(call);
  auto scalar = [&](int input) { return *call.in[input].as<float>(); };
  UpdateScalars scalars{.numbers = {},
                        .weight_decay = static_cast<float>(optimizer.weight_decay),
                        .learning_rate = scalar(at.learning_rate()),
                        .clip = scalar(at.clip()),
                        .scalars = {}};
  std::ranges::copy(optimizer.numbers, scalars.numbers);
  for (int i = 0; i < std::ssize(optimizer.rule->scalars); ++i)
    scalars.scalars[i] = scalar(at.scalar(i));
  bool copies = std::ssize(call.out) > at.kept();
  bfloat16* compute = copies ? call.out.back().as<bfloat16>() : nullptr;
  if (scalars.clip == 0) return keep(call, compute);
  (at.rounds() ? run_rounded : run_float32)(call, range, scalars, compute);
}

}  // namespace longshore::models
