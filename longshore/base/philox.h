// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): random numbers as a
// pure function of a counter and a key. Whatever is drawn can be drawn again, in any order and on
// any device, from its index alone.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace longshore {

// What the numbers of a run's one seed are for. It is the last word of the counter, so two uses
// never see the same numbers.
enum class RandomUse : uint32_t {
  synthetic_tokens = 1,
  data_order = 2,
  initial_weights = 3,
  sampling = 4,
  rounding = 5,
  synthetic_pixels = 6,
  dropout = 7,
  shard_order = 8
};

using PhiloxBlock = std::array<uint32_t, 4>;

// Of all its bits. nvcc makes an addition of zero besides of the plain product.
constexpr uint64_t wide_product(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return uint64_t{a} * b;
#endif
}

constexpr PhiloxBlock philox(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = wide_product(0xD2511F53, counter[0]);
    const uint64_t product1 = wide_product(0xCD9E8D57, counter[2]);
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The sequence that belongs to a name: 32-bit FNV-1a.
constexpr uint32_t random_sequence(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

// Four numbers: block `index` of sequence `sequence` (32 bits of names for one use) under `seed`.
constexpr PhiloxBlock philox(uint64_t seed, RandomUse use, uint32_t sequence, uint64_t index) {
  return philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), sequence,
                 static_cast<uint32_t>(use)},
                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

}  // namespace longshore
