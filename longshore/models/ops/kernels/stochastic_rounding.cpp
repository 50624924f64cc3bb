#include "longshore/models/ops/kernels/stochastic_rounding.h"

#include "longshore/models/ops/kernels/philox_words.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

static_assert(kPhiloxLanes == kRoundingPairs);

// The 64 bits of half a group, from element `at` on.
LONGSHORE_INLINE void split_half(const uint32_t* a, const uint32_t* b, int64_t at,
                                 RoundingBits& bits) {
#pragma omp simd
  for (int lane = 0; lane < kRoundingPairs; ++lane) {
    const ElementBits element = element_bits(a[lane], b[lane]);
    bits.weight[at + lane] = element.weight;
    bits.states[0][at + lane] = element.states[0];
    bits.states[1][at + lane] = element.states[1];
  }
}

LONGSHORE_SIMD void split_group(const PhiloxWords& drawn, int64_t at, RoundingBits& bits) {
  split_half(drawn.words[0], drawn.words[1], at, bits);
  split_half(drawn.words[2], drawn.words[3], at + kRoundingPairs, bits);
}

}  // namespace

void draw_rounding_bits(const RoundingStream& stream, int64_t first, RoundingBits& bits) {
  for (int64_t group = 0; group < RoundingBits::kCount; group += kRoundingGroup) {
    PhiloxWords drawn;
    draw_philox_words({static_cast<uint32_t>((first + group) / 2), stream.step, stream.sequence,
                       static_cast<uint32_t>(RandomUse::rounding)},
                      stream.seed, drawn);
    split_group(drawn, group, bits);
  }
}

}  // namespace longshore::models
