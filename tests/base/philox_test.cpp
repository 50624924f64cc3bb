#include "longshore/base/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace longshore {
namespace {

// The known-answer vectors that Random123 publishes for philox4x32 with 10 rounds (kat_vectors).
TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryPartOfTheAddressCounts) {
  const uint64_t high = uint64_t{1} << 32;
  std::set<PhiloxBlock> blocks;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, high})
    for (RandomUse use : {RandomUse::synthetic_tokens, RandomUse::data_order})
      for (uint32_t sequence : {0u, 1u})
        for (uint64_t index : {uint64_t{0}, uint64_t{1}, high})
          blocks.insert(philox(seed, use, sequence, index));
  EXPECT_EQ(blocks.size(), 3u * 2 * 2 * 3);
}

}  // namespace
}  // namespace longshore
