// Streams of random tokens and of real texts, by every kind of tokenizer: nothing is lost, nothing
// comes in halves.
#include "longshore/data/tokenizers/text_stream.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <random>
#include <set>

#include "longshore/base/utf8.h"

namespace longshore::data {
namespace {

std::vector<std::filesystem::path> tokenizers() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator("tests/goldens/tokenizers"))
    paths.push_back(entry.path());
  return paths;
}

// What the stream gives out behind the first `before` ids; every part is whole characters.
std::string streamed(const Tokenizer& tokenizer, std::span<const int32_t> ids, size_t before) {
  TextStream stream(tokenizer, ids.first(before));
  std::string text;
  for (int32_t id : ids.subspan(before)) {
    std::string part = stream.add(id);
    EXPECT_EQ(valid_utf8_prefix(part), part.size());
    text += part;
  }
  return text + stream.finish();
}

const std::string kText =
    "The boats wait in the harbour, and nobody says why.\n\n  Two spaces, 1234.5; \tnaïve "
    "café — 日本語の文 🚢🚢 ﬁn. Zürich, Ελλάδα, हिन्दी. The end of it, at last, is here.";

TEST(TextStream, JoinsToTheWholeText) {
  for (const auto& path : tokenizers()) {
    const Tokenizer tokenizer(path);
    const std::vector<int32_t> ids = tokenizer.encode(kText);
    const std::string whole = tokenizer.decode(ids);
    ASSERT_GT(ids.size(), 60u);
    for (size_t before : {size_t{0}, size_t{1}, size_t{5}, size_t{40}}) {
      const std::string head = tokenizer.decode(std::span(ids).first(before));
      if (valid_utf8_prefix(head) < head.size() || head.ends_with(kReplacementCharacter)) continue;
      EXPECT_EQ(head + streamed(tokenizer, ids, before), whole) << path << " " << before;
    }
  }
}

// Tokens as a model of random weights gives them: parts of characters in any order, control tokens.
TEST(TextStream, JoinsRandomTokens) {
  const std::set<std::string> replaces_runs_of_bytes{"llama2_bpe", "gemma_bpe"};
  auto without_replacements = [](std::string text) {
    for (size_t at; (at = text.find(kReplacementCharacter)) != text.npos;)
      text.erase(at, kReplacementCharacter.size());
    return text;
  };
  std::mt19937 random(7);
  for (const auto& path : tokenizers()) {
    const Tokenizer tokenizer(path);
    for (int round = 0; round < 5; ++round) {
      std::vector<int32_t> ids(200);
      for (int32_t& id : ids)
        id = static_cast<int32_t>(random() % static_cast<uint32_t>(tokenizer.vocab_size()));
      const std::string found = streamed(tokenizer, ids, 0), whole = tokenizer.decode(ids);
      if (!replaces_runs_of_bytes.contains(path.filename()))
        EXPECT_EQ(found, whole) << path;
      else
        EXPECT_GE(without_replacements(found).size(), without_replacements(whole).size()) << path;
    }
  }
}

// Also where a tokenizer.json would replace a whole character because of what follows it.
TEST(TextStream, BytesThatEndWithinACharacterLeaveTheOthersWhole) {
  for (const char* name : {"llama2_bpe", "gemma_bpe", "sp_bpe", "sp_unigram"}) {
    const Tokenizer tokenizer(std::filesystem::path("tests/goldens/tokenizers") / name);
    auto ids_of = [&](std::string_view bytes) {
      std::vector<int32_t> ids;
      for (char c : bytes) {
        char token[8];
        std::snprintf(token, sizeof token, "<0x%02X>", static_cast<unsigned char>(c));
        ids.push_back(*tokenizer.id_of(token));
      }
      return ids;
    };
    const std::string r(kReplacementCharacter);
    for (const auto& [bytes, text] : {std::pair<std::string, std::string>{"日本", "日本"},
                                      {"日\xe6\x9c", "日" + r + r},
                                      {"\xe6\x9c日", r + r + "日"},
                                      {"日\xff🚢", "日" + r + "🚢"},
                                      {"\xed\xa0\x80", r + r + r}}) {
      EXPECT_EQ(streamed(tokenizer, ids_of(bytes), 0), text) << name;
      // A space that follows is one.
      std::vector<int32_t> ids = ids_of(bytes), more = tokenizer.encode("the ship");
      ids.insert(ids.end(), more.begin(), more.end());
      const std::string found = streamed(tokenizer, ids, 0);
      EXPECT_TRUE(found == text + "the ship" || found == text + " the ship") << name << found;
    }
  }
}

// Each of a character's bytes is a token, and it comes with the last.
TEST(TextStream, HoldsPartsOfCharactersBack) {
  const Tokenizer tokenizer("tests/goldens/tokenizers/sp_bpe");
  const std::vector<int32_t> ids = tokenizer.encode("a🚢b");
  TextStream stream(tokenizer, {});
  std::vector<std::string> parts;
  for (int32_t id : ids)
    if (std::string part = stream.add(id); !part.empty()) parts.push_back(part);
  EXPECT_EQ(parts, (std::vector<std::string>{"a", "🚢", "b"}));
  EXPECT_GE(ids.size(), 6u);

  TextStream torn(tokenizer, {});
  for (int32_t id : std::span(ids).first(3)) torn.add(id);
  EXPECT_EQ(replace_invalid_utf8(torn.finish()).find(kReplacementCharacter), 0u);
}

}  // namespace
}  // namespace longshore::data
