// Rows of pairs of answers, and what batches count of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "longshore/base/error.h"
#include "longshore/data/rows/batches.h"
#include "longshore/data/rows/document_rows.h"
#include "longshore/data/rows/held_out.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Tokens = std::vector<int32_t>;

struct Pair {
  Tokens prompt, chosen, rejected;  // an answer that is not there is empty
  auto operator<=>(const Pair&) const = default;
};

std::shared_ptr<const TokenFile> file_of(const TemporaryFolder& folder,
                                         const std::vector<Pair>& pairs) {
  TokenFileWriter writer(folder / "a.tokens", 60'000, 0, LossMask::present, Pairing::present);
  for (const Pair& pair : pairs)
    for (const Tokens* answer : {&pair.chosen, &pair.rejected}) {
      Tokens tokens = answer->empty() ? Tokens{0} : pair.prompt;
      std::vector<uint8_t> carries_loss(tokens.size(), 0);
      tokens.insert(tokens.end(), answer->begin(), answer->end());
      carries_loss.resize(tokens.size(), 1);
      writer.append(tokens, carries_loss);
    }
  writer.finish();
  return std::make_shared<TokenFile>(folder / "a.tokens");
}

// Pairs that all differ, every fifth without one of its answers.
std::vector<Pair> some_pairs(int32_t count, uint64_t longest) {
  std::mt19937_64 random(static_cast<uint64_t>(count));
  std::vector<Pair> pairs(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    Pair& pair = pairs[static_cast<size_t>(i)];
    auto fill = [&](Tokens& tokens, int32_t first) {
      for (uint64_t n = 1 + random() % longest; n > 0; --n) tokens.push_back(first + 3 * i);
    };
    fill(pair.prompt, 10'000);
    if (i % 10 != 0) fill(pair.chosen, 10'001);
    if (i % 10 != 5) fill(pair.rejected, 10'002);
  }
  return pairs;
}

std::shared_ptr<const DocumentRows> rows_of(const std::shared_ptr<const TokenFile>& file,
                                            DocumentRowsOptions options) {
  return std::make_shared<const DocumentRows>(file, options);
}

BatchSchema schema_of(int64_t rows, int64_t length, Counted counted,
                      Answers answers = Answers::own) {
  BatchSchema schema(rows, length);
  schema.counted = counted;
  schema.answers = answers;
  return schema;
}

struct Sequence {
  Tokens prompt, answer;
};

// A row's sequences by their segments, in their order. Segments are one after another.
std::map<int32_t, Sequence> sequences_of(const Batch& batch, int64_t row) {
  std::map<int32_t, Sequence> found;
  const int64_t length = batch.shape.length;
  int32_t last = 0;
  for (int64_t t = 0; t < length; ++t) {
    const auto i = static_cast<size_t>(row * length + t);
    const int32_t segment = batch["segments"][i];
    if (segment == kPadding) {
      EXPECT_EQ(batch["targets"][i], kIgnoredTarget);
      last = 1 << 30;
      continue;
    }
    EXPECT_GE(segment, last);
    const int32_t position = segment == last ? batch["positions"][i - 1] + 1 : 0;
    EXPECT_EQ(batch["positions"][i], position);
    last = segment;
    Sequence& sequence = found[segment];
    const bool is_target = batch["targets"][i] != kIgnoredTarget;
    if (sequence.answer.empty()) {
      sequence.prompt.push_back(batch["tokens"][i]);
    } else {
      EXPECT_TRUE(is_target);
      EXPECT_EQ(sequence.answer.back(), batch["tokens"][i]);
    }
    if (is_target) sequence.answer.push_back(batch["targets"][i]);
  }
  return found;
}

std::vector<Pair> pairs_of(const Batch& batch) {
  std::vector<Pair> pairs;
  for (int64_t row = 0; row < batch.shape.rows; ++row) {
    std::map<int32_t, Pair> of_row;
    for (const auto& [segment, sequence] : sequences_of(batch, row)) {
      Pair& pair = of_row[(segment - 1) / 2];
      EXPECT_TRUE(pair.prompt.empty() || pair.prompt == sequence.prompt);
      pair.prompt = sequence.prompt;
      (segment % 2 == 1 ? pair.chosen : pair.rejected) = sequence.answer;
    }
    int32_t number = 0;
    for (const auto& [place, pair] : of_row) {
      EXPECT_EQ(place, number++);
      pairs.push_back(pair);
    }
  }
  return pairs;
}

template <class T>
std::vector<T> sorted(std::vector<T> values) {
  std::ranges::sort(values);
  return values;
}

TEST(PairRows, HoldEveryPairOnceInOneRow) {
  TemporaryFolder folder;
  const std::vector<Pair> pairs = some_pairs(600, 9);
  const auto file = file_of(folder, pairs);
  int64_t positions = 0;
  for (const Pair& pair : pairs)
    for (const Tokens* answer : {&pair.chosen, &pair.rejected})
      if (!answer->empty()) positions += std::ssize(pair.prompt) + std::ssize(*answer) - 1;
  for (bool packing : {false, true}) {
    const auto rows = rows_of(file, {.length = 64, .packing = packing});
    const BatchSchema schema = schema_of(rows->count(), 64, Counted::pairs);
    const Batch all = sequential_batches(rows, schema)(0);
    EXPECT_EQ(sorted(pairs_of(all)), sorted(pairs));
    EXPECT_EQ(rows->counts().units, 600);
    EXPECT_EQ(rows->counts().one_sided, 120);
    EXPECT_EQ(rows->counts().positions, positions);
    EXPECT_EQ(all.total_weights, 480);
    if (packing) {
      EXPECT_LT(rows->count() * 64, positions * 11 / 10);
    } else {
      EXPECT_EQ(rows->count(), 600);
    }
    for (int64_t epoch : {0, 2}) {
      const Batch shuffled = shuffled_batches({{rows, std::nullopt}}, schema, 5)(epoch);
      EXPECT_NE(pairs_of(shuffled), pairs_of(all));
      EXPECT_EQ(sorted(pairs_of(shuffled)), sorted(pairs));
    }
  }
}

// The lengths are positions: those of the prompt but the first, and of the answer.
TEST(PairRows, CutTheLongerAnswerFirst) {
  struct Case {
    int32_t prompt, chosen, rejected, kept_chosen, kept_rejected;
  };
  TemporaryFolder folder;
  constexpr int64_t kLength = 11;
  for (const Case& one : {Case{3, 3, 4, 3, 4},     // 5 + 6
                          Case{3, 3, 5, 3, 4},     // 5 + 7
                          Case{3, 2, 40, 2, 5},    // 4 + 7
                          Case{3, 40, 1, 6, 1},    // 8 + 3
                          Case{3, 30, 20, 3, 3},   // 5 + 5: one more of each is too much
                          Case{3, 30, 0, 9, 0},    // alone in its row
                          Case{3, 0, 30, 0, 9},    //
                          Case{6, 9, 9, 0, 0}}) {  // nothing of the answers is left
    const Pair pair{Tokens(static_cast<size_t>(one.prompt), 1),
                    Tokens(static_cast<size_t>(one.chosen), 2),
                    Tokens(static_cast<size_t>(one.rejected), 3)};
    const Pair other{{4}, {5}, {6}};
    const auto file = file_of(folder, {pair, other});
    const bool fits = one.kept_chosen == one.chosen && one.kept_rejected == one.rejected;
    const bool is_kept = one.kept_chosen + one.kept_rejected > 0;
    std::vector<Pair> expected{other};
    if (is_kept)
      expected.push_back({pair.prompt, Tokens(static_cast<size_t>(one.kept_chosen), 2),
                          Tokens(static_cast<size_t>(one.kept_rejected), 3)});
    auto rows = rows_of(file, {.length = kLength});
    const auto found = [&] {
      return sorted(pairs_of(sequential_batches(rows, {rows->count(), kLength})(0)));
    };
    EXPECT_EQ(found(), sorted(expected)) << one.chosen << " " << one.rejected;
    EXPECT_EQ(rows->counts().too_long, fits ? 0 : 1);
    EXPECT_EQ(rows->counts().untrained, is_kept ? 0 : 1);
    rows = rows_of(file, {.length = kLength, .excess_length = ExcessLength::skip});
    EXPECT_EQ(found(), fits ? sorted(expected) : std::vector{other});
  }
}

TEST(PairRows, RefuseToSplitAndWhatHasNothingToLearn) {
  TemporaryFolder folder;
  const auto file = file_of(folder, {{Tokens(9, 1), {2}, {3}}, {{1}, {}, {}}});
  EXPECT_EQ(message_of<ConfigError>(
                [&] { DocumentRows(file, {.length = 8, .excess_length = ExcessLength::split}); }),
            "excess_length_strategy: found split, expected truncate or skip, since a pair of "
            "answers must stand in one row; nearest: truncate");
  EXPECT_EQ(message_of<DataError>([&] { DocumentRows(file, {.length = 8}); }),
            "found nothing to train on in 2 pairs: 1 with more than the 8 positions of a row, 2 "
            "with nothing to learn in it");
}

TEST(PairRows, AreCountedAsAsked) {
  TemporaryFolder folder;
  const auto rows = rows_of(file_of(folder, {{{1, 2, 3}, {4, 5}, {6}},      // 4 + 3 positions
                                             {{7}, {}, {8, 9, 10}},         // 3
                                             {{11, 12}, {13}, {14, 15}}}),  // 2 + 3
                            {.length = 16, .packing = true});
  ASSERT_EQ(rows->count(), 1);
  BatchSchema schema = schema_of(2, 16, Counted::targets);
  auto batch = [&](Counted counted) {
    schema.counted = counted;
    return sequential_batches(rows, schema)(0);
  };
  auto first_row = [](const Batch& of, const char* name) {
    return Tokens(of[name].begin(), of[name].begin() + 16);
  };
  EXPECT_THAT(first_row(batch(Counted::pairs), kSegments),
              ElementsAre(1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 6, 6, 6, 0));
  EXPECT_EQ(batch(Counted::targets).total_weights, 9);
  EXPECT_EQ(batch(Counted::targets).chosen_targets, 0);
  EXPECT_EQ(batch(Counted::pairs).total_weights, 2);
  EXPECT_EQ(batch(Counted::pairs).chosen_targets, 3);
  EXPECT_EQ(batch(Counted::answers).total_weights, 5);
  schema.inputs.push_back({.name = kNextTokens, .per_row = 16, .padding = kIgnoredTarget});
  const Batch predicted = batch(Counted::pairs);
  EXPECT_EQ(predicted.chosen_targets, 6);
  EXPECT_EQ(predicted.total_weights, 2);
  constexpr int32_t none = kIgnoredTarget;
  EXPECT_THAT(first_row(predicted, kNextTokens),
              ElementsAre(2, 3, 4, 5, 2, 3, 6, 12, 13, 12, 14, 15, 8, 9, 10, none));
  EXPECT_THAT(first_row(predicted, kTargets),
              ElementsAre(none, none, 4, 5, none, none, 6, none, 13, none, 14, 15, 8, 9, 10, none));
}

// As TRL's KTOTrainer pairs prompts with the answers to others, for an estimate of the divergence.
TEST(PairRows, ExchangeAnswers) {
  const std::vector<Pair> pairs{{{1, 49, 56, 64, 41}, {57, 19, 10, 34, 26, 2}, {8, 22, 58, 2}},
                                {{1, 16, 13}, {44, 53, 2}, {46, 20, 7, 2}},
                                {{1, 30, 25}, {}, {29, 12, 50, 63, 2}},
                                {{1}, {62, 49, 46, 64, 2}, {58, 62, 20, 33, 2}}};
  std::vector<TokenSequence> sequences;
  for (size_t i = 0; i < pairs.size(); ++i)
    for (int32_t place : {0, 1}) {
      const Tokens& answer = place == 0 ? pairs[i].chosen : pairs[i].rejected;
      if (answer.empty()) continue;
      TokenSequence& one = sequences.emplace_back(TokenSequence{
          .segment = static_cast<int32_t>(2 * i) + 1 + place, .tokens = pairs[i].prompt});
      one.carries_loss.resize(one.tokens.size(), 0);
      one.tokens.insert(one.tokens.end(), answer.begin(), answer.end());
      one.carries_loss.resize(one.tokens.size(), 1);
    }
  exchange_answers(sequences);
  std::vector<Tokens> found;
  std::vector<int32_t> segments;
  for (const TokenSequence& one : sequences) {
    found.push_back(one.tokens);
    segments.push_back(one.segment);
    EXPECT_EQ(one.carries_loss.size(), one.tokens.size());
    EXPECT_EQ(prompt_length(one.carries_loss),
              std::ssize(pairs[static_cast<size_t>((one.segment - 1) / 2)].prompt));
  }
  EXPECT_THAT(segments, ElementsAre(1, 2, 3, 4, 6, 7, 8));
  // Of the chosen 0, 1, 3 and then the rejected 0, 1, 2, 3, each has the answer of the one before.
  EXPECT_THAT(found, ElementsAre(Tokens{1, 49, 56, 64, 41, 58, 62, 20, 33, 2},
                                 Tokens{1, 49, 56, 64, 41, 62, 49, 46, 64, 2},
                                 Tokens{1, 16, 13, 57, 19, 10, 34, 26, 2},
                                 Tokens{1, 16, 13, 8, 22, 58, 2}, Tokens{1, 30, 25, 46, 20, 7, 2},
                                 Tokens{1, 44, 53, 2}, Tokens{1, 29, 12, 50, 63, 2}));
}

TEST(PairRows, OfOthersAreAsLongAndHaveTheSameAnswers) {
  TemporaryFolder folder;
  const auto file = file_of(folder, some_pairs(300, 9));
  const auto rows = rows_of(file, {.length = 64, .packing = true});
  auto read = [&](Answers answers) {
    return sequential_batches(rows, schema_of(rows->count(), 64, Counted::answers, answers))(0);
  };
  const Batch own = read(Answers::own), others = read(Answers::of_others);
  for (int64_t row = 0; row < rows->count(); ++row) {
    const auto a = sequences_of(own, row), b = sequences_of(others, row);
    ASSERT_EQ(a.size(), b.size());
    std::vector<Tokens> answers, exchanged;
    for (const auto& [segment, sequence] : a) {
      ASSERT_TRUE(b.contains(segment));
      EXPECT_EQ(b.at(segment).prompt, sequence.prompt);
      EXPECT_NE(b.at(segment).answer, sequence.answer);
      answers.push_back(sequence.answer);
      exchanged.push_back(b.at(segment).answer);
    }
    EXPECT_EQ(sorted(answers), sorted(exchanged));
  }
  EXPECT_EQ(own.total_weights, 540);
  EXPECT_EQ(others.total_weights, 540);

  // Answers to one prompt alone are no estimate.
  const auto same = rows_of(file_of(folder, {{{1, 2}, {3, 4}, {5}}, {{1, 2}, {}, {6}}}),
                            {.length = 64, .packing = true});
  const Batch none =
      sequential_batches(same, schema_of(1, 64, Counted::answers, Answers::of_others))(0);
  EXPECT_EQ(none.total_weights, 0);
  EXPECT_THAT(none[kTargets], testing::Each(kIgnoredTarget));
}

TEST(HeldOutDocuments, HoldAllAnswersToAPromptTogether) {
  TemporaryFolder folder;
  std::vector<Pair> pairs;
  for (int32_t i = 0; i < 2000; ++i) {
    const int32_t prompt = 1 + i % 400;
    pairs.push_back({{prompt, 7}, {1000 + i}, {2000 + i, 8}});
    if (i % 3 == 0) pairs.back().chosen.clear();
    if (i % 3 == 1) pairs.back().rejected.clear();
  }
  const HeldOutDocuments held(*file_of(folder, pairs), 0.25);
  std::array<std::set<int32_t>, 2> prompts;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto document = static_cast<int64_t>(2 * i);
    EXPECT_EQ(held.contains(document), held.contains(document + 1));
    prompts[held.contains(document)].insert(pairs[i].prompt[0]);
  }
  EXPECT_EQ(prompts[0].size() + prompts[1].size(), 400u);
  EXPECT_NEAR(static_cast<double>(prompts[1].size()), 100, 35);
  EXPECT_EQ(held.count(), 10 * std::ssize(prompts[1]));
}

}  // namespace
}  // namespace longshore::data
