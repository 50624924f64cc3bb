#include "longshore/data/tokenizers/unicode_sets.h"

#include <gtest/gtest.h>

#include <numeric>

namespace longshore::data {
namespace {

int64_t characters_in(std::span<const CharacterRange> set) {
  return std::accumulate(set.begin(), set.end(), int64_t{0},
                         [](int64_t sum, const CharacterRange& range) {
                           return sum + static_cast<int64_t>(range.last - range.first) + 1;
                         });
}

CharacterSet whole(std::span<const CharacterRange> set) {
  return character_set({set.begin(), set.end()});
}

// Unicode 16 has 154,998 characters, 65 controls and 137,468 for private use.
TEST(UnicodeSets, CategoriesShareTheCharactersOfUnicode16) {
  std::vector<CharacterRange> all;
  int64_t sum = 0;
  for (const UnicodeSet& each : unicode_categories()) {
    all.insert(all.end(), each.characters.begin(), each.characters.end());
    sum += characters_in(each.characters);
  }
  EXPECT_EQ(sum, 154'998 + 65 + 137'468);
  EXPECT_EQ(characters_in(character_set(all)), sum);
}

TEST(UnicodeSets, AreOrdered) {
  std::vector<UnicodeSet> sets(unicode_categories().begin(), unicode_categories().end());
  sets.insert(sets.end(), unicode_scripts().begin(), unicode_scripts().end());
  sets.push_back({"numeric", numeric_characters()});
  sets.push_back({"punctuation", punctuation_characters()});
  sets.push_back({"word", word_characters()});
  for (const UnicodeSet& each : sets) {
    ASSERT_FALSE(each.characters.empty()) << each.name;
    EXPECT_EQ(whole(each.characters), CharacterSet(each.characters.begin(), each.characters.end()))
        << each.name;
  }
}

TEST(CharacterSet, ComplementHasWhatTheSetLacks) {
  for (const UnicodeSet& each : unicode_categories()) {
    const CharacterSet others = complement(each.characters);
    EXPECT_EQ(complement(others), whole(each.characters)) << each.name;
    for (const CharacterRange& range : each.characters) {
      EXPECT_TRUE(contains(each.characters, range.first) && contains(each.characters, range.last));
      EXPECT_FALSE(contains(others, range.first) || contains(others, range.last));
    }
  }
  EXPECT_EQ(characters_in(complement({})), 0x110000);
  EXPECT_FALSE(contains({}, U'a'));
}

TEST(CharacterSet, RangesMayOverlapAndTouch) {
  EXPECT_EQ(character_set({{5, 9}, {1, 2}, {3, 3}, {7, 8}, {20, 20}}),
            (CharacterSet{{1, 3}, {5, 9}, {20, 20}}));
}

}  // namespace
}  // namespace longshore::data
