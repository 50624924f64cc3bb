#include "longshore/data/text/encode_example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "longshore/base/error.h"
#include "tests/data/chat_example.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

const std::string kGoldens = "tests/goldens/tokenizers/";

Document encoded(const Example& example, const Tokenizer& tokenizer,
                 const EncodeOptions& options = {}) {
  const std::vector<Document> documents = encode(example, tokenizer, options);
  EXPECT_EQ(documents.size(), 1u);
  return documents.at(0);
}

EncodeOptions by(const char* chat_template) {
  return {.chat_template = ChatTemplate::named(chat_template)};
}

std::string trained(const Document& document, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < document.tokens.size(); ++i)
    if (document.carries_loss[i]) ids.push_back(document.tokens[i]);
  return tokenizer.decode(ids, SpecialTokens::keep);
}

TEST(EncodeExample, FramesTextWithBosAndEos) {
  for (const char* name : {"sp_bpe/tokenizer.model", "gemma_bpe/tokenizer.json"}) {
    const Tokenizer tokenizer(kGoldens + name);
    ASSERT_GE(tokenizer.bos_id(), 0);
    std::vector<int32_t> expected = tokenizer.encode("The boats wait");
    expected.insert(expected.begin(), tokenizer.bos_id());
    expected.push_back(tokenizer.eos_id());
    const Document document = encoded(TextExample{"The boats wait"}, tokenizer);
    EXPECT_EQ(document.tokens, expected);
    EXPECT_EQ(document.carries_loss, std::vector<uint8_t>(expected.size(), 1));
  }
}

// A text that a template made writes bos and eos itself. A tokenizer.json reads them in a text; a
// sentencepiece model does not.
TEST(EncodeExample, AddsBosAndEosWhereTheyAreMissing) {
  struct Form {
    const char* file;
    std::string bos, eos;
  };
  for (const Form& form :
       {Form{"bytelevel_bpe_llama3/tokenizer.json", "<|begin_of_text|>", "<|end_of_text|>"},
        Form{"gemma_bpe/tokenizer.json", "<bos>", "<eos>"},
        Form{"sp_bpe/tokenizer.model", "<s>", "</s>"}}) {
    const Tokenizer tokenizer(kGoldens + form.file);
    auto tokens = [&](const std::string& text, AddBosEos add) {
      return encoded(TextExample{text}, tokenizer, {.add_bos_eos = add}).tokens;
    };
    const std::vector<int32_t> plain = tokenizer.encode("hello");
    std::vector<int32_t> framed = plain;
    framed.insert(framed.begin(), tokenizer.bos_id());
    framed.push_back(tokenizer.eos_id());
    EXPECT_EQ(tokens("hello", AddBosEos::missing), framed);
    EXPECT_EQ(tokens("hello", AddBosEos::always), framed);
    EXPECT_EQ(tokens("hello", AddBosEos::never), plain);
    for (const std::string& bos : {std::string(), form.bos})
      for (const std::string& eos : {std::string(), form.eos}) {
        const std::string text = bos + "hello" + eos;
        EXPECT_EQ(tokens(text, AddBosEos::missing), framed) << form.file << " " << text;
        EXPECT_EQ(tokens(text, AddBosEos::never), tokenizer.encode(text));
        std::vector<int32_t> twice = tokenizer.encode(text);
        twice.insert(twice.begin(), tokenizer.bos_id());
        twice.push_back(tokenizer.eos_id());
        EXPECT_EQ(tokens(text, AddBosEos::always), twice);
        EXPECT_EQ(encode_text(text, tokenizer).writes_bos_or_eos, text != "hello");
      }
    const Document pair = encoded(CompletionExample{form.bos + "he", "llo" + form.eos}, tokenizer);
    EXPECT_EQ(pair.tokens, framed);
    EXPECT_EQ(pair.carries_loss.front(), 0);
    EXPECT_EQ(pair.carries_loss.back(), 1);
    EXPECT_EQ(encode_text("", tokenizer).tokens,
              (std::vector<int32_t>{tokenizer.bos_id(), tokenizer.eos_id()}));
    framed.pop_back();
    for (const std::string& prompt : {std::string("hello"), form.bos + "hello"})
      EXPECT_EQ(prompt_tokens(prompt, tokenizer.bos_id(), tokenizer), framed);
  }
}

// The ids are those of prompt and completion as one text; what is trained on begins with the token
// that has the completion's first character.
TEST(EncodeExample, LearnsTheCompletion) {
  for (const char* name : {"sp_bpe/tokenizer.model", "sp_unigram/tokenizer.model",
                           "bytelevel_bpe_gpt2/tokenizer.json", "gemma_bpe/tokenizer.json"}) {
    const Tokenizer tokenizer(kGoldens + name);
    for (const auto& [prompt, completion] : std::vector<std::pair<std::string, std::string>>{
             {"The capital of France is", " Paris."},
             {"Who", "le numbers"},  // the tokens of "Whole" are not those of "Who"
             {"", "alone"},
             {"caf\xc3\xa9:\n", "\nau lait"},
             {"a b ", "c"}}) {
      const Document document = encoded(CompletionExample{prompt, completion}, tokenizer);
      std::vector<int32_t> expected = tokenizer.encode(prompt + completion);
      if (tokenizer.bos_id() >= 0) expected.insert(expected.begin(), tokenizer.bos_id());
      expected.push_back(tokenizer.eos_id());
      EXPECT_EQ(document.tokens, expected) << name << " " << prompt;
      const auto first = std::ranges::find(document.carries_loss, 1);
      EXPECT_TRUE(std::all_of(first, document.carries_loss.end(), [](int m) { return m == 1; }));
      // With what is not trained on the prompt is not passed, and one token more passes it.
      auto decoded = [&](auto end) {
        const auto count = static_cast<size_t>(end - document.carries_loss.begin());
        return tokenizer.decode(std::span(document.tokens).first(count));
      };
      EXPECT_TRUE(prompt.starts_with(decoded(first))) << name << " " << prompt;
      EXPECT_GE(decoded(first + 1).size() + 1, prompt.size()) << name << " " << prompt;
      if (tokenizer.bos_id() >= 0) {
        EXPECT_EQ(document.carries_loss[0], 0);
      }
    }
  }
}

// The ids of the prompt alone part from those of the whole before the completion begins: a token
// is trained on by the characters it holds.
TEST(EncodeExample, LearnsNoTokenOfThePromptAlone) {
  const Tokenizer tokenizer(kGoldens + "bytelevel_bpe_llama3/tokenizer.json");
  const auto head = tokenizer.encode("A:  "), all = tokenizer.encode("A:  4");
  ASSERT_NE(head.back(), all[head.size() - 1]);
  const Document document = encoded(CompletionExample{"A:  ", "4"}, tokenizer);
  EXPECT_EQ(trained(document, tokenizer), "4<|end_of_text|>");
}

// Metaspace's "first" is the first text of what is tokenized, not of what follows a special token.
TEST(EncodeExample, OnlyTheFirstTextIsFirst) {
  nlohmann::json file =
      nlohmann::json::parse(std::ifstream(kGoldens + "llama2_bpe/tokenizer.json"));
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "Metaspace"},
                           {"replacement", "\u2581"},
                           {"prepend_scheme", "first"},
                           {"split", false}};
  const std::string path = testing::TempDir() + "metaspace_first.json";
  std::ofstream(path) << file;
  const Tokenizer tokenizer(path);
  const ChatTemplate llama2 = ChatTemplate::named("llama2");
  const ChatExample chat{conversation_of({{"user", "Hi"}, {"assistant", "Hello"}})};
  const std::string text = llama2.text(chat.conversation, 2).text;
  ASSERT_TRUE(text.starts_with("<s>[INST]")) << text;
  EXPECT_EQ(encoded(chat, tokenizer, {.chat_template = llama2}).tokens, tokenizer.encode(text));
  std::vector<int32_t> framed = tokenizer.encode("Hi Hello");
  if (tokenizer.bos_id() >= 0) framed.insert(framed.begin(), tokenizer.bos_id());
  framed.push_back(tokenizer.eos_id());
  EXPECT_EQ(encoded(CompletionExample{"Hi ", "Hello"}, tokenizer).tokens, framed);
}

TEST(EncodeExample, LearnsWhatTheAssistantSays) {
  const Tokenizer qwen(kGoldens + "bytelevel_bpe_qwen/tokenizer.json");
  const Tokenizer llama3(kGoldens + "bytelevel_bpe_llama3/tokenizer.json");
  const ChatExample example{conversation_of({{"system", "Be kind."},
                                             {"user", "Hi"},
                                             {"assistant", "\nHello!"},
                                             {"user", "Who are you?"},
                                             {"assistant", "A model."}})};
  auto check = [&](const Tokenizer& tokenizer, const char* name, const std::string& expected) {
    const ChatTemplate chat_template = ChatTemplate::named(name);
    const Document document = encoded(example, tokenizer, {.chat_template = chat_template});
    EXPECT_EQ(trained(document, tokenizer), expected) << name;
    const std::string text = chat_template.text(example.conversation, 5).text;
    EXPECT_EQ(document.tokens, tokenizer.encode(text)) << name;
  };
  check(llama3, "llama3", "Hello!<|eot_id|>A model.<|eot_id|>");
  const Document document = encoded(example, qwen, by("chatml"));
  // "assistant\n" and "\nHello!" share the token "\n\n", which is trained on.
  EXPECT_TRUE(trained(document, qwen).ends_with("\nHello!<|im_end|>A model.<|im_end|>"))
      << trained(document, qwen);
  EXPECT_LE(trained(document, qwen).size(),
            std::string("\n\nHello!<|im_end|>A model.<|im_end|>").size());
}

// What a model is asked to go on from begins as what it was trained on, to the token.
TEST(EncodeExample, PromptsBeginAsConversationsDo) {
  constexpr std::array kTokenizers{"bytelevel_bpe_gpt2", "bytelevel_bpe_llama3",
                                   "bytelevel_bpe_qwen", "gemma_bpe",
                                   "llama2_bpe",         "sp_bpe",
                                   "sp_bpe_gemma",       "sp_unigram"};
  int compared = 0;
  for (const char* name : kTokenizers) {
    const Tokenizer tokenizer(kGoldens + name);
    for (const std::string& family : kChatTemplates) {
      const ChatTemplate chat_template = ChatTemplate::named(family);
      for (const char* asked :
           {"Where are we?", "\nWhere are we?", "\n\nIn port?\n", " In port?", "", "\t", "le"}) {
        const Conversation question = user_says(asked);
        std::vector<int32_t> prompt;
        try {
          prompt = prompt_tokens(question, tokenizer, chat_template);
        } catch (const DataError&) {
          continue;  // the tokenizer is of another family
        }
        const Document document =
            encoded(ChatExample{conversation_of({{"user", asked}, {"assistant", "In port."}})},
                    tokenizer, {.chat_template = chat_template});
        ASSERT_LT(prompt.size(), document.tokens.size());
        EXPECT_TRUE(std::ranges::equal(prompt, std::span(document.tokens).first(prompt.size())))
            << name << " " << family << " " << asked;
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 6 * 7);
}

TEST(EncodeExample, RefusesWhatNothingIsLearntFrom) {
  const Tokenizer gpt2(kGoldens + "bytelevel_bpe_gpt2/tokenizer.json");
  const ChatExample chat{conversation_of({{"user", "Hi"}, {"assistant", "Hello"}})};
  EXPECT_THAT(message_of<DataError>([&] { encode(chat, gpt2); }),
              HasSubstr("found messages, expected a chat template to write them with: none was "
                        "asked for, or the tokenizer's folder has none without a name, so name one "
                        "(chat_template, --chat-template): llama2, llama3"));
  const Tokenizer gemma(kGoldens + "gemma_bpe/tokenizer.json");
  EXPECT_THAT(message_of<DataError>([&] { encode(chat, gemma, by("chatml")); }),
              HasSubstr("which the tokenizer lacks"));
  EXPECT_NO_THROW(encode(TextExample{" "}, gpt2));
}

}  // namespace
}  // namespace longshore::data
