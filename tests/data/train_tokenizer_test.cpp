#include "longshore/data/tokenizers/train_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/tokenizers/bpe_trainer.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;
using Texts = std::vector<std::string>;

NextText each_of(const Texts& texts) {
  return [&texts, i = size_t{0}](std::string& text) mutable {
    if (i == texts.size()) return false;
    text = texts[i++];
    return true;
  };
}

// Enough for several batches.
Texts long_texts() {
  Texts texts;
  for (int i = 0; i < 3000; ++i)
    texts.push_back("The boat " + std::to_string(i) + " waits\nin port " + std::to_string(i % 7) +
                    " for " + std::string(i % 5, 'a') + " day and " + std::to_string(i * i) + ".");
  return texts;
}

// As tests/tokenizers/forms.py writes it.
TEST(TrainTokenizer, LearnsWhatTokenizersLearns) {
  const auto golden = Json::parse(std::ifstream("tests/goldens/trained_bpe.json"));
  const Texts texts = golden.at("texts");
  const size_t vocab_size = golden.at("vocab_size");
  const auto found = Json::parse(train_byte_level(each_of(texts), vocab_size + 2));
  EXPECT_EQ(found.at("model").at("merges"), golden.at("merges"));
  const auto& vocab = found.at("model").at("vocab");
  ASSERT_EQ(vocab.size(), vocab_size);
  for (size_t id = 0; id < vocab_size; ++id)
    EXPECT_EQ(vocab.at(golden.at("vocab").at(id).get<std::string>()), id);
}

TEST(TrainTokenizer, TheOrderOfTextsMakesNoDifferenceToBytes) {
  Texts texts = long_texts();
  const std::string trained = train_byte_level(each_of(texts), 700);
  EXPECT_EQ(train_byte_level(each_of(texts), 700), trained);
  std::ranges::reverse(texts);
  EXPECT_EQ(train_byte_level(each_of(texts), 700), trained);
}

TEST(TrainTokenizer, MakesATokenizer) {
  TemporaryFolder folder;
  const Texts texts = long_texts();
  const Tokenizer json(folder.write("tokenizer.json", train_byte_level(each_of(texts), 600)));
  EXPECT_EQ(json.vocab_size(), 600);
  EXPECT_EQ(json.bos_id(), 598);
  EXPECT_EQ(json.eos_id(), 599);
  EXPECT_LT(json.encode("The boat waits").size(), 5u);
  const std::string text = "caf\xc3\xa9 <|end_of_text|>\n";
  EXPECT_EQ(json.decode(json.encode(text), SpecialTokens::keep), text);
}

TEST(TrainTokenizer, SentencepieceTwiceMakesTheSame) {
  TemporaryFolder folder;
  const Texts texts = long_texts();
  const std::string trained = train_sentencepiece(each_of(texts), 400);
  EXPECT_EQ(train_sentencepiece(each_of(texts), 400), trained);
  const Tokenizer model(folder.write("tokenizer.model", trained));
  EXPECT_EQ(model.vocab_size(), 400);
  EXPECT_EQ(model.bos_id(), 1);
  EXPECT_EQ(model.eos_id(), 2);
  EXPECT_LT(model.encode("The boat waits").size(), 5u);
  EXPECT_EQ(model.decode(model.encode("caf\xc3\xa9  x")), "caf\xc3\xa9  x");
}

TEST(TrainTokenizer, SaysWhatTextIsTooLittle) {
  const Texts texts = {"abab", "ab"};
  EXPECT_EQ(message_of<DataError>([&] { train_byte_level(each_of(texts), 1000); }),
            "found text from which only 260 tokens can be learnt, expected 1000");
  EXPECT_THAT(message_of<DataError>([&] { train_byte_level(each_of(texts), 257); }),
              HasSubstr("found a vocabulary of 257, expected at least 258"));
  EXPECT_THAT(message_of<DataError>([&] { train_sentencepiece(each_of(texts), 1000); }),
              HasSubstr("cannot train a sentencepiece model: "));
  EXPECT_THAT(message_of<DataError>([&] { train_sentencepiece(each_of({}), 400); }),
              HasSubstr("cannot train a sentencepiece model: "));
  EXPECT_THAT(message_of<DataError>([&] { train_sentencepiece(each_of(texts), 5); }),
              HasSubstr("cannot train a sentencepiece model: "));
}

TEST(TrainTokenizer, WhatReadsTheTextsIsHeard) {
  for (auto train : {train_byte_level, train_sentencepiece})
    EXPECT_EQ(message_of<DataError>([&] {
                train([](std::string&) -> bool { throw DataError("a.jsonl:1: bad"); }, 300);
              }),
              "a.jsonl:1: bad");
}

}  // namespace
}  // namespace longshore::data
