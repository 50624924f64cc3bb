#include "longshore/data/tokenizers/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "longshore/base/error.h"
#include "longshore/data/tokenizers/json_tokenizer.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

using Json = nlohmann::json;

Json golden(const std::string& name) {
  return Json::parse(std::ifstream("tests/goldens/tokenizers/" + name + "/tokenizer.json"));
}

// The golden with the value at `pointer` replaced.
Json changed(const std::string& name, const std::string& pointer, const Json& value) {
  Json file = golden(name);
  file[Json::json_pointer(pointer)] = value;
  return file;
}

std::string refusal(const std::string& text) {
  return message_of<DataError>([&] { make_json_tokenizer(text); });
}

TEST(TokenizerJson, NamesThePlaceOfWhatItDoesNotSupport) {
  const std::string byte_level = "bytelevel_bpe_llama3", characters = "llama2_bpe";
  struct Change {
    std::string name, pointer;
    Json value;
    std::string expected;
  };
  const Json byte_pre = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  auto scored = [](const Json::initializer_list_t& entry) {
    return Json::array({Json::array(entry)});
  };
  const Change changes[] = {
      {byte_level, "/version", "2.0", "version: expected \"1.0\", found \"2.0\""},
      {byte_level, "/extra", 1, "the file: \"extra\" is not supported"},
      {byte_level, "/model/type", "Unigram", "pre_tokenizer: expected none with ByteLevel beside"},
      {characters, "/model/type", "Unigram", "model: \"continuing_subword_prefix\" is not"},
      {characters,
       "/model",
       {{"type", "Unigram"}, {"vocab", Json::object()}},
       "model/vocab: expected an array of tokens and scores"},
      {characters,
       "/model",
       {{"type", "Unigram"}, {"vocab", scored({"a", 1, 2})}},
       "model/vocab/0: expected [\"token\", score]"},
      {characters,
       "/model",
       {{"type", "Unigram"}, {"vocab", scored({"a", -1.5})}, {"unk_id", 1}},
       "model/unk_id: expected an id below 1, found 1"},
      {characters,
       "/model",
       {{"type", "Unigram"}, {"vocab", Json::parse(R"([["a", -1.5], ["a", -2]])")}},
       "model/vocab: \"a\" has id 1 and, before, 0"},
      {byte_level, "/model/type", "WordLevel",
       "model/type: expected BPE, Unigram, or a sentencepiece model"},
      {byte_level, "/model/dropout", 0.1, "model/dropout: expected null, found 0.1"},
      {byte_level, "/model/end_of_word_suffix", "</w>", "model/end_of_word_suffix: expected"},
      {byte_level, "/model/surprise", 1, "model: \"surprise\" is not supported"},
      {byte_level, "/model/ignore_merges", 1, "model/ignore_merges: expected true or false"},
      {byte_level, "/normalizer", {{"type", "Nmt"}}, "normalizer/type: expected NFC, NFD"},
      {byte_level, "/normalizer", {{"type", "Strip"}}, "normalizer/strip_left: expected true"},
      {byte_level,
       "/normalizer",
       {{"type", "Precompiled"}, {"precompiled_charsmap", "AAA="}},
       "normalizer/precompiled_charsmap: normaliser rules cut off"},
      {byte_level,
       "/normalizer",
       {{"type", "Precompiled"}, {"precompiled_charsmap", "?"}},
       "normalizer/precompiled_charsmap: "},
      {characters,
       "/normalizer/normalizers/1/pattern",
       {{"Regex", "(a+)+"}},
       "normalizer/normalizers/1/pattern: regular expression \"(a+)+\""},
      {byte_level,
       "/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", {byte_pre, byte_pre}}},
       "pre_tokenizer/pretokenizers/1/type: expected no other behind ByteLevel"},
      {byte_level,
       "/pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "__"}},
       "pre_tokenizer/replacement: expected one character"},
      {byte_level, "/pre_tokenizer/pretokenizers/0/behavior", "Dropped",
       "pre_tokenizer/pretokenizers/0/behavior: expected Removed, Isolated, MergedWithPrevious"},
      {byte_level,
       "/pre_tokenizer",
       {{"type", "Metaspace"},
        {"replacement", "_"},
        {"add_prefix_space", false},
        {"prepend_scheme", "first"}},
       "pre_tokenizer/add_prefix_space: expected true, or \"never\" as prepend_scheme"},
      {byte_level, "/pre_tokenizer/pretokenizers/0/pattern/Regex", "(a+)+",
       "regular expression \"(a+)+\""},
      {byte_level, "/pre_tokenizer/pretokenizers/0/type", "BertPreTokenizer",
       "pre_tokenizer/pretokenizers/0/type: expected Split"},
      {byte_level, "/decoder", nullptr, "decoder: expected an object, found null"},
      {byte_level, "/decoder/type", "WordPiece", "decoder/type: expected ByteLevel"},
      {characters, "/decoder/decoders/1/type", "Fuse",
       "decoder/decoders/2/type: expected Replace, Metaspace, ByteFallback, Fuse and Strip in "
       "this"},
      {characters, "/decoder/decoders/3/start", 17,
       "decoder/decoders/3/start: expected at most 16"},
      {characters, "/decoder", {{"type", "ByteLevel"}}, "decoder/type: expected another"},
      {byte_level, "/post_processor/processors/0/type", "BertProcessing",
       "post_processor/processors/0/type: expected TemplateProcessing"},
      {byte_level, "/post_processor/processors/1/special_tokens/<|begin_of_text|>/ids/0", 5,
       "post_processor/processors/1/special_tokens/<|begin_of_text|>/ids/0: expected the id of"},
      {byte_level, "/post_processor/processors/1/single", Json::array(),
       "post_processor/processors/1/single: expected a Sequence"},
      {byte_level, "/added_tokens/2/single_word", 1,
       "added_tokens/2/single_word: expected true or false"},
      {byte_level, "/added_tokens/2/content", "", "added_tokens/2/content: expected 1 to 256"},
      {byte_level, "/added_tokens/2/content", "<|end_of_text|>",
       "added_tokens/2/content: expected no token a second time"},
      {byte_level, "/added_tokens/2/id", 0, "added_tokens/2: \"<|start_header_id|>\" has id 0"},
      {byte_level, "/added_tokens/2/id", -1, "added_tokens/2/id: expected a whole number"},
      {byte_level, "/added_tokens/2/id", 1 << 22, "added_tokens/2/id: expected an id below"},
      {characters, "/added_tokens/1/id", 690, "added_tokens/1: \"<s>\" has id 690"},
      {byte_level, "/model/vocab/new", 4, "model/vocab: \"new\" has id 4, which is that of"},
      {byte_level, "/model/vocab/new", -4, "model/vocab/\"new\": expected an id below"},
      {byte_level, "/model/vocab/new", 1 << 22, "model/vocab/\"new\": expected an id below"},
      {byte_level, "/model/vocab/new", "x", "model/vocab/\"new\": expected an id below"},
      {byte_level, "/model/vocab", Json::object(), "model/vocab: no byte has a token"},
      {characters, "/model/vocab", Json::object(), "model/unk_token: expected a token"},
      {byte_level, "/model/vocab", nullptr, "model: \"vocab\" is not supported"},
      {byte_level, "/model/merges/7", "a", "model/merges/7: expected a merge"},
      {byte_level, "/model/merges/7", "a b c", "model/merges/7: expected a merge"},
      {byte_level, "/model/merges/7", {"a"}, "model/merges/7: expected a merge"},
      {byte_level, "/model/merges/7", {"a", "b", "c"}, "model/merges/7: expected a merge"},
      {byte_level, "/model/merges/7", {"a", 1}, "model/merges/7: expected a merge"},
      {byte_level, "/model/merges/7", 5, "model/merges/7: expected a merge"},
      {byte_level,
       "/model/merges/7",
       {"q", "\u00e9\u00e9"},
       "model/merges/7: \"\u00e9\u00e9\" is not in the vocabulary"},
      {byte_level,
       "/model/merges/7",
       {"q", "q"},
       "model/merges/7: \"qq\" is not in the vocabulary"},
      {byte_level, "/model/merges/7", {"", "q"}, "model/merges/7: \"\" is not in the vocabulary"},
      {byte_level,
       "/model/merges/7",
       {"h", "e"},
       "model/merges/7: \"h\" and \"e\" are merged a second time"},
  };
  for (const Change& each : changes) {
    const std::string message = refusal(changed(each.name, each.pointer, each.value).dump());
    EXPECT_TRUE(message.starts_with(each.expected)) << each.pointer << ": " << message;
  }
}

TEST(TokenizerJson, RefusesWhatIsNoSuchFile) {
  const std::string file = golden("bytelevel_bpe_llama3").dump();
  const std::string deep = R"({"decoder": )" + std::string(100'000, '[');
  EXPECT_THAT(refusal(deep), HasSubstr("found deeper nesting"));
  EXPECT_THAT(refusal("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("version: expected a string, found null"));
  EXPECT_THAT(refusal(""), HasSubstr("no valid JSON"));
  EXPECT_THAT(refusal(file + "x"), HasSubstr("no valid JSON"));
  EXPECT_NE(refusal(R"({"version": "1.0", "version": "1.0"})").find("a second \"version\""),
            std::string::npos);
  EXPECT_THAT(refusal("{\"version\": \"\xff\"}"), HasSubstr("no valid JSON"));
  EXPECT_NE(refusal(R"({"model": {"vocab": {"a": 1}, "vocab": {"b": 1}}})").find("expected"),
            std::string::npos);
  std::string twice = file;
  twice.replace(twice.find("\"vocab\":{") + 9, 0, "\"!\":9,");
  EXPECT_THAT(refusal(twice), HasSubstr("model/vocab: \"!\" has id 0 and, before, 9"));
}

// A damaged file is refused, or works on any text.
TEST(TokenizerJson, DamagedFilesAreRefusedOrSafe) {
  std::mt19937_64 random(1);
  int refused = 0, loaded = 0;
  for (const char* name : {"bytelevel_bpe_qwen", "llama2_bpe"}) {
    const std::string file = golden(name).dump();
    for (int i = 0; i < 400; ++i) {
      std::string damaged = file;
      for (size_t n = 1 + random() % 2; n > 0; --n)
        damaged[random() % damaged.size()] = "\"{}[],:0aZ \xc3"[random() % 12];
      try {
        const auto tokenizer = make_json_tokenizer(damaged);
        ++loaded;
        for (int32_t id : tokenizer->encode("caf\xc3\xa9 <tool>  12 the <r> \xe6\xbc\xa2"))
          ASSERT_TRUE(id >= 0 && id < tokenizer->vocab_size());
      } catch (const DataError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(loaded, 10);
}

Json replace_step(const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

// Sixteen steps that each make sixteen characters of one.
Json multiplying_normalizer() {
  return {{"type", "Sequence"},
          {"normalizers", std::vector<Json>(16, replace_step("a", std::string(16, 'a')))}};
}

TEST(TokenizerJson, StepsThatMultiplyTextAreRefused) {
  Json file = golden("gemma_bpe");
  file["normalizer"] = multiplying_normalizer();
  file["pre_tokenizer"] = nullptr;
  const auto tokenizer = make_json_tokenizer(file.dump());
  EXPECT_NO_THROW(tokenizer->encode("the"));
  EXPECT_THAT(message_of<DataError>([&] { tokenizer->encode("a bit"); }),
              HasSubstr("normalizer: step 7 of 16, Replace: found more than 33554432 bytes"));

  file["added_tokens"].push_back(
      {{"id", 999'999}, {"content", "<aaaa>"}, {"normalized", true}, {"special", false}});
  EXPECT_THAT(refusal(file.dump()),
              HasSubstr("added_tokens: \"<aaaa>\": normalizer: step 3 of 16, Replace: found more"));
}

// Of a text as long as may be, spaces become three bytes each.
TEST(TokenizerJson, TheLongestTextIsNormalised) {
  const auto tokenizer = make_json_tokenizer(golden("llama2_bpe").dump());
  const std::string spaces(8 << 20, ' ');
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(spaces), SpecialTokens::keep), spaces);
}

TEST(TokenizerJson, AddedTokensTogetherAreHeldToTheirLimit) {
  Json file = golden("gemma_bpe");
  file["normalizer"] = replace_step("a", std::string(100, 'a'));
  file["pre_tokenizer"] = nullptr;
  for (int i = 0; i < 2000; ++i)
    file["added_tokens"].push_back({{"id", 100'000 + i},
                                    {"content", std::string(40, 'a') + std::to_string(i)},
                                    {"normalized", true},
                                    {"special", false}});
  EXPECT_THAT(refusal(file.dump()), HasSubstr("added_tokens: expected at most 4194304 bytes"));
}

TEST(TokenizerJson, ReplacementsAreShort) {
  const std::string longest(256, 'x'), too_long(257, 'x');
  for (const Json& step : {replace_step("q", ""), Json{{"type", "Prepend"}, {"prepend", ""}}}) {
    Json file = golden("gemma_bpe");
    const std::string key = step["type"] == "Replace" ? "content" : "prepend";
    file["normalizer"] = step;
    file["normalizer"][key] = longest;
    file["pre_tokenizer"] = nullptr;
    EXPECT_NO_THROW(make_json_tokenizer(file.dump()));
    file["normalizer"][key] = too_long;
    EXPECT_EQ(refusal(file.dump()),
              "normalizer/" + key + ": expected at most 256 bytes, found 257");
  }
  Json file = golden("gemma_bpe");
  file["decoder"]["decoders"][0]["content"] = too_long;
  EXPECT_TRUE(refusal(file.dump()).starts_with("decoder/decoders/0/content: expected at most 256"));
}

TEST(TokenizerJson, TokensThatDecodeToTooMuchAreRefused) {
  Json file = golden("gemma_bpe");
  file["decoder"]["decoders"][0] = replace_step("a", std::string(256, 'a'));
  EXPECT_NO_THROW(make_json_tokenizer(file.dump()));
  file["model"]["vocab"][std::string(17, 'a')] = 100'000;  // 4352 bytes
  EXPECT_TRUE(refusal(file.dump()).starts_with("decoder: expected Replace to make at most 4096"))
      << refusal(file.dump());
  file = golden("gemma_bpe");
  file["decoder"]["decoders"][0] = replace_step("a", std::string(256, 'a'));
  for (int i = 0; i < 70'000; ++i)
    file["model"]["vocab"][std::string(15, 'a') + std::to_string(i)] = 100'000 + i;
  EXPECT_TRUE(
      refusal(file.dump()).starts_with("decoder: expected Replace to make at most 268435456"))
      << refusal(file.dump());
}

TEST(TokenizerJson, BothSpellingsOfMergesMeanTheSame) {
  Json file = golden("bytelevel_bpe_llama3");
  auto merges_of = [](const Json& json) {
    return std::get<BpeModel>(parse_tokenizer_json(json.dump()).model).merges;
  };
  const std::vector<BpeMerge> pairs = merges_of(file);
  for (Json& merge : file["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  const std::vector<BpeMerge> strings = merges_of(file);
  ASSERT_EQ(strings.size(), pairs.size());
  ASSERT_GT(pairs.size(), 400u);
  for (size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_EQ(strings[i].left, pairs[i].left);
    EXPECT_EQ(strings[i].right, pairs[i].right);
    EXPECT_EQ(strings[i].result, pairs[i].result);
  }
}

// Combining marks come in the order of their classes, each class in that of the text: below before
// above, U+0344 as the two that it stands for.
TEST(TokenizerJson, ManyCombiningMarksAreSoonInOrder) {
  Json file = golden("bytelevel_bpe_qwen");
  const auto tokenizer = make_json_tokenizer(file.dump());
  const std::string above = "\u0301", below = "\u0327", both = "\u0344";
  auto times = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  for (int count : {1, 40, 200})
    EXPECT_EQ(
        tokenizer->encode("xa" + times(above + below + both, count) + "b"),
        tokenizer->encode("xa" + times(below, count) + times("\u0301\u0308\u0301", count) + "b"))
        << count;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(tokenizer->encode("a" + times(above + below, 100'000)),
            tokenizer->encode("a" + times(below, 100'000) + times(above, 100'000)));
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            std::chrono::seconds(10));  // 30 s by insertion
}

// As transformers 5 writes Llama 2's and Mistral's: the mark of spaces is put where a normalizer
// put it before, but never beside another.
// As tokenizers has it: a mark and a pair of Unicode 13 stay as they are.
TEST(TokenizerJson, WhatIsNewerThanUnicode9IsNotNormalised) {
  Json file = golden("bytelevel_bpe_qwen");
  const auto normalizing = make_json_tokenizer(file.dump());
  file["normalizer"] = nullptr;
  const auto plain = make_json_tokenizer(file.dump());
  for (const char* text : {"q\u0301\u1abf", "\U00011935\U00011930"})
    EXPECT_EQ(normalizing->encode(text), plain->encode(text)) << text;
  for (const char* text : {"q\u0301\u0323", "e\u0301", "\u212b"})
    EXPECT_NE(normalizing->encode(text), plain->encode(text)) << text;
}

TEST(TokenizerJson, MetaspaceMarksSpaces) {
  Json file = golden("llama2_bpe");
  const auto normalizing = make_json_tokenizer(file.dump());
  file["normalizer"] = nullptr;
  auto encode = [&](const char* scheme, const std::string& text) {
    file["pre_tokenizer"] = {{"type", "Metaspace"},
                             {"replacement", "\u2581"},
                             {"prepend_scheme", scheme},
                             {"split", false}};
    return make_json_tokenizer(file.dump())->encode(text);
  };
  using Ids = std::vector<int32_t>;
  const std::string text = "the boats  wait";
  const Ids marked = normalizing->encode(text), after_bos = [&] {
    Ids ids{1};
    ids.insert(ids.end(), marked.begin(), marked.end());
    return ids;
  }();
  for (const char* scheme : {"first", "always"}) {
    EXPECT_EQ(encode(scheme, text), marked) << scheme;
    EXPECT_EQ(encode(scheme, " " + text), marked) << scheme;
  }
  EXPECT_EQ(encode("never", " " + text), marked);
  EXPECT_NE(encode("never", text), marked);
  EXPECT_EQ(encode("always", "<s>" + text), after_bos);
  EXPECT_NE(encode("first", "<s>" + text), after_bos);
  EXPECT_EQ(encode("first", "<s> " + text), after_bos);
  EXPECT_EQ(encode("first", ""), Ids());
}

// What is looked for in normalised text is decoded so, as tokenizers 0.23 does: with the space that
// the normaliser puts before it.
TEST(TokenizerJson, NormalizedAddedTokensAreDecodedNormalized) {
  Json file = golden("llama2_bpe");
  const auto id = static_cast<int32_t>(file["model"]["vocab"].size());
  auto decoded = [&](bool is_normalized, const std::string& text) {
    Json added = file;
    added["added_tokens"].push_back({{"id", id},
                                     {"content", "zq"},
                                     {"single_word", false},
                                     {"lstrip", false},
                                     {"rstrip", false},
                                     {"normalized", is_normalized},
                                     {"special", false}});
    const auto tokenizer = make_json_tokenizer(added.dump());
    const std::vector<int32_t> ids = tokenizer->encode(text);
    EXPECT_EQ(std::ranges::count(ids, id), 1) << text;
    return tokenizer->decode(ids, SpecialTokens::keep);
  };
  EXPECT_EQ(decoded(true, "a zq b"), "a zq b");
  EXPECT_EQ(decoded(true, " zq c"), " zq c");
  EXPECT_EQ(decoded(true, "zq"), "zq");
  EXPECT_EQ(decoded(false, "azq"), "azq");
}

TEST(TokenizerJson, EosIsThatOfTheTemplateOrAKnownName) {
  Json file = golden("bytelevel_bpe_llama3");
  EXPECT_EQ(make_json_tokenizer(file.dump())->eos_id(), 704);
  Json& processor = file["post_processor"]["processors"][1];
  processor["single"].push_back({{"SpecialToken", {{"id", "<|eot_id|>"}, {"type_id", 0}}}});
  processor["special_tokens"]["<|eot_id|>"] = {
      {"id", "<|eot_id|>"}, {"ids", {707}}, {"tokens", {"<|eot_id|>"}}};
  EXPECT_EQ(make_json_tokenizer(file.dump())->eos_id(), 707);
  file["post_processor"] = nullptr;
  EXPECT_EQ(make_json_tokenizer(file.dump())->eos_id(), 704);
  EXPECT_EQ(make_json_tokenizer(file.dump())->bos_id(), -1);
  file["added_tokens"][2]["content"] = "</s>";  // two of the names
  EXPECT_EQ(make_json_tokenizer(file.dump())->eos_id(), -1);
}

// No joints between its characters, and all of them: neither may take quadratic time.
TEST(TokenizerJson, OneLineOfAMegabyteIsNoBurden) {
  const auto tokenizer = make_json_tokenizer(golden("gemma_bpe").dump());
  std::string words, letters;
  std::mt19937_64 random(1);
  while (words.size() < (1 << 20)) words += random() % 5 ? "the " : "a b ";
  while (letters.size() < (1 << 20)) letters += "thean"[random() % 5];
  for (const std::string& text : {words, letters, std::string(1 << 20, 'a')}) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<int32_t> ids = tokenizer->encode(text);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), 10);  // quadratic time would be hours
    EXPECT_EQ(tokenizer->decode(ids, SpecialTokens::keep), text);
  }
}

}  // namespace
}  // namespace longshore::data
