// Text around images: that the tokens are those of transformers' processors, see
// tests/goldens/images/text.json.
#include "longshore/data/images/image_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "longshore/base/error.h"
#include "longshore/data/text/encode_example.h"
#include "tests/data/chat_example.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json goldens(const char* model) {
  return json::parse(std::ifstream("tests/goldens/images/text.json")).at(model);
}

// The small Gemma tokenizer with more special tokens, which a test appends.
class TextTokenizer {
 public:
  explicit TextTokenizer(const std::vector<std::pair<std::string, int32_t>>& added) {
    json file = json::parse(std::ifstream("tests/goldens/tokenizers/gemma_bpe/tokenizer.json"));
    for (const auto& [name, id] : added) {
      json token = file.at("added_tokens").at(0);
      token["id"] = id;
      token["content"] = name;
      file.at("added_tokens").push_back(token);
    }
    tokenizer_.emplace(folder_.write("tokenizer.json", file.dump()));
  }
  const Tokenizer& operator*() const { return *tokenizer_; }

 private:
  TemporaryFolder folder_;
  std::optional<Tokenizer> tokenizer_;
};

std::vector<std::pair<std::string, int32_t>> added_of(const json& golden) {
  std::vector<std::pair<std::string, int32_t>> added;
  for (const auto& [name, id] : golden.at("added").items()) added.emplace_back(name, int32_t{id});
  std::ranges::sort(added, {}, &std::pair<std::string, int32_t>::second);
  return added;
}

// All of PaliGemma's, of which the golden gives the first and last.
std::vector<std::pair<std::string, int32_t>> paligemma_tokens() {
  std::vector<std::pair<std::string, int32_t>> added{{"<image>", 887}};
  char name[16];
  for (int i = 0; i < 1024 + 128; ++i) {
    std::snprintf(name, sizeof name, i < 1024 ? "<loc%04d>" : "<seg%03d>", i < 1024 ? i : i - 1024);
    added.emplace_back(name, 888 + i);
  }
  return added;
}

std::vector<ImageSource> some_images(int64_t count) {
  return std::vector<ImageSource>(static_cast<size_t>(count));
}

std::vector<int32_t> untrained_head(const Document& document) {
  const auto first = std::ranges::find(document.carries_loss, 1) - document.carries_loss.begin();
  return {document.tokens.begin(), document.tokens.begin() + first};
}

const ImageText kPaliGemmaText{
    .kind = ImageText::Kind::before_text, .image_token = 887, .tokens_per_image = 4};
const ImageText kGemma3Text{
    .kind = ImageText::Kind::in_text, .image_token = 889, .tokens_per_image = 4};

TEST(ImageText, OfPaliGemmaIsThatOfTransformers) {
  const TextTokenizer tokenizer(paligemma_tokens());
  const json golden = goldens("paligemma_text");
  for (const auto& [name, id] : added_of(golden)) ASSERT_EQ((*tokenizer).id_of(name), id);
  for (const json& one : golden.at("cases")) {
    std::string prefix = one.at("text");
    while (prefix.starts_with("<image>")) prefix.erase(0, 7);
    const bool is_prompt = one.at("suffix").is_null();
    const Document document =
        encode(CompletionExample{prefix, is_prompt ? "x" : one.at("suffix").get<std::string>(),
                                 some_images(one.at("images"))},
               *tokenizer, {.image_text = kPaliGemmaText})[0];
    const std::vector<int32_t> ids = one.at("input_ids"), labels = one.at("labels");
    if (is_prompt) {
      EXPECT_EQ(untrained_head(document), ids);
      continue;
    }
    EXPECT_EQ(document.tokens, ids);
    for (size_t i = 0; i < labels.size(); ++i)
      EXPECT_EQ(document.carries_loss[i] == 1, labels[i] != -100) << prefix << " " << i;
  }
}

// A prompt that goes on with a special token, by which its own end stays what it is.
TEST(ImageText, OfGemma3IsThatOfTransformers) {
  const json golden = goldens("gemma3_text");
  const TextTokenizer tokenizer(added_of(golden));
  for (const json& one : golden.at("cases")) {
    std::string prompt = one.at("text");
    int64_t images = one.at("images");
    if (one.at("pan_and_scan").get<bool>()) {
      prompt =
          "Here is the original image <start_of_image> and here are some crops to help you see "
          "better <start_of_image> <start_of_image> describe";
      images = 3;
    }
    const Document document = encode(CompletionExample{prompt, "<mask>", some_images(images)},
                                     *tokenizer, {.image_text = kGemma3Text})[0];
    EXPECT_EQ(untrained_head(document), one.at("input_ids").get<std::vector<int32_t>>()) << prompt;
    EXPECT_EQ(document.tokens.size(), one.at("input_ids").size() + 2);
  }
}

TEST(ImageText, OfConversationsIsThatOfTransformers) {
  const json golden = goldens("gemma3_text");
  const TextTokenizer tokenizer(added_of(golden));
  const json image{{"type", "image"}};
  auto text = [](const char* words) { return json{{"type", "text"}, {"text", words}}; };
  const ChatExample chat{conversation_of({{"user", json::array({image, text(" What is this?\n")})},
                                          {"assistant", "Boats"}}),
                         some_images(1)};
  const Document document =
      encode(chat, *tokenizer,
             {.chat_template = ChatTemplate::named("gemma"), .image_text = kGemma3Text})[0];
  const std::vector<int32_t> ids = golden.at("cases").at(0).at("input_ids");
  EXPECT_EQ(untrained_head(document), ids);
  EXPECT_THAT(
      message_of<DataError>([&] {
        const ChatTemplate of_text("T",
                                   "{% for m in messages %}{{ m.content + 'x' }}"
                                   "{% endfor %}");
        encode(chat, *tokenizer, {.chat_template = of_text, .image_text = kGemma3Text});
      }),
      HasSubstr("message 0: found an image, for which the chat template T writes no place"));
}

TEST(ImageText, HasNoLossOnImages) {
  const TextTokenizer tokenizer(added_of(goldens("gemma3_text")));
  const json parts = json::array({{{"type", "text"}, {"text", "b"}}, {{"type", "image"}}});
  const ChatExample chat{conversation_of({{"user", "a"}, {"assistant", parts}}), some_images(1)};
  const Document document =
      encode(chat, *tokenizer,
             {.chat_template = ChatTemplate::named("gemma"), .image_text = kGemma3Text})[0];
  for (size_t i = 0; i < document.tokens.size(); ++i)
    if (document.tokens[i] >= 887) {
      EXPECT_EQ(document.carries_loss[i], 0);
    }
  EXPECT_EQ(std::ranges::count(document.tokens, 889), 4);
}

TEST(ImageText, StandsBeforeThePromptUnlessThatNamesThePlace) {
  const TextTokenizer tokenizer(added_of(goldens("gemma3_text")));
  auto tokens = [&](const std::string& prompt, int64_t images) {
    return encode(CompletionExample{prompt, "c", some_images(images)}, *tokenizer,
                  {.image_text = kGemma3Text})[0]
        .tokens;
  };
  EXPECT_EQ(tokens("a", 2), tokens("<start_of_image><start_of_image>a", 2));
  EXPECT_EQ(tokens("<bos>a", 1), tokens("a", 1));
  EXPECT_EQ(tokens("a", 0), encode(CompletionExample{"a", "c"}, *tokenizer)[0].tokens);
  EXPECT_THAT(
      message_of<DataError>([&] { tokens("<start_of_image>a", 2); }),
      HasSubstr("prompt: found 1 times <start_of_image>, expected one for each of 2 images"));
}

TEST(ImageText, MayNotSpellItsTokens) {
  const TextTokenizer gemma3(added_of(goldens("gemma3_text"))), paligemma(paligemma_tokens());
  auto message = [](const Tokenizer& tokenizer, const Example& example, const ImageText& text) {
    return message_of<DataError>([&] { encode(example, tokenizer, {.image_text = text}); });
  };
  for (int64_t images : {0, 1}) {
    EXPECT_THAT(message(*paligemma, CompletionExample{"a<image>", "b", some_images(images)},
                        kPaliGemmaText),
                HasSubstr("found \"<image>\" in the text, expected none"));
    EXPECT_THAT(message(*gemma3, CompletionExample{"a", "<image_soft_token>", some_images(images)},
                        kGemma3Text),
                HasSubstr("found \"<image_soft_token>\" in the text"));
  }
  EXPECT_THAT(message(*gemma3, CompletionExample{"a", "<start_of_image>"}, kGemma3Text),
              HasSubstr("found \"<start_of_image>\" in the text"));
  EXPECT_THAT(message(*paligemma, TextExample{"an <image>"}, kPaliGemmaText),
              HasSubstr("found \"<image>\" in the text"));
  EXPECT_THROW(encode_text("<image>", *paligemma, AddBosEos::missing, kPaliGemmaText), DataError);
}

TEST(ImageText, IsForModelsThatReadImages) {
  const TextTokenizer tokenizer(paligemma_tokens());
  const CompletionExample pair{"a", "b", some_images(1)};
  EXPECT_THAT(message_of<DataError>([&] { encode(pair, *tokenizer); }),
              HasSubstr("found 1 image, but the model reads none; nearest: use_multimodal=true"));
  EXPECT_THAT(
      message_of<DataError>([&] {
        encode(ChatExample{conversation_of(
                               {{"user", json::array({{{"type", "image"}}})}, {"assistant", "b"}}),
                           some_images(1)},
               *tokenizer,
               {.chat_template = ChatTemplate::named("gemma"), .image_text = kPaliGemmaText});
      }),
      HasSubstr("found messages with images, expected prefix and suffix"));
}

}  // namespace
}  // namespace longshore::data
