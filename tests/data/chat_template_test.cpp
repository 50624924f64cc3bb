#include "data/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

using Ending = ChatTemplate::Ending;

const std::filesystem::path kGoldens = "tests/goldens/tokenizers";
const char* const kNames[] = {"llama2", "llama3", "gemma", "chatml"};

const Tokenizer& tokenizer_of(const std::string& name) {
  static const Tokenizer llama2(kGoldens / "llama2_bpe" / "tokenizer.json");
  static const Tokenizer llama3(kGoldens / "bytelevel_bpe_llama3" / "tokenizer.json");
  static const Tokenizer gemma(kGoldens / "gemma_bpe" / "tokenizer.json");
  static const Tokenizer qwen(kGoldens / "bytelevel_bpe_qwen" / "tokenizer.json");
  return name == "llama2" ? llama2 : name == "llama3" ? llama3 : name == "gemma" ? gemma : qwen;
}

std::vector<ChatPiece> pieces(const std::string& name, const std::vector<ChatMessage>& messages,
                              Ending ending = Ending::complete) {
  return ChatTemplate::named(name).pieces(messages, tokenizer_of(name), ending);
}

std::string text_of(const std::vector<ChatPiece>& pieces) {
  std::string text;
  for (const ChatPiece& piece : pieces) text += piece.text;
  return text;
}

// In one string, completions between braces.
std::string marked(const std::vector<ChatPiece>& pieces) {
  std::string text;
  bool inside = false;
  for (const ChatPiece& piece : pieces) {
    if (piece.is_completion != inside) text += inside ? "}" : "{";
    inside = piece.is_completion;
    text += piece.text;
  }
  return text + (inside ? "}" : "");
}

const std::vector<ChatMessage> kTurns = {{"user", " Hi\n"},
                                         {"assistant", "Hello! "},
                                         {"user", "Who are you?"},
                                         {"assistant", "\nA model."}};

std::vector<ChatMessage> with_system(std::vector<ChatMessage> messages) {
  messages.insert(messages.begin(), {"system", " Be kind. "});
  return messages;
}

// Written by hand from the chat_template entries of the published tokenizer_config.json files.
TEST(ChatTemplate, WritesTurnsAsPublishedTemplatesDo) {
  EXPECT_EQ(marked(pieces("llama2", kTurns)),
            "<s>[INST] Hi [/INST]{ Hello! </s>}<s>[INST] Who are you? [/INST]{ A model. </s>}");
  EXPECT_EQ(marked(pieces("llama3", kTurns)),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{Hello!<|eot_id|>}"
            "<|start_header_id|>user<|end_header_id|>\n\nWho are you?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{A model.<|eot_id|>}");
  EXPECT_EQ(marked(pieces("gemma", kTurns)),
            "<bos><start_of_turn>user\nHi<end_of_turn>\n"
            "<start_of_turn>model\n{Hello!<end_of_turn>}\n"
            "<start_of_turn>user\nWho are you?<end_of_turn>\n"
            "<start_of_turn>model\n{A model.<end_of_turn>}\n");
  EXPECT_EQ(marked(pieces("chatml", kTurns)),
            "<|im_start|>user\n Hi\n<|im_end|>\n"
            "<|im_start|>assistant\n{Hello! <|im_end|>}\n"
            "<|im_start|>user\nWho are you?<|im_end|>\n"
            "<|im_start|>assistant\n{\nA model.<|im_end|>}\n");
}

TEST(ChatTemplate, WritesTheSystemMessage) {
  const auto messages = with_system({{"user", " Hi"}, {"assistant", "Yes"}});
  EXPECT_EQ(text_of(pieces("llama2", messages)),
            "<s>[INST] <<SYS>>\n Be kind. \n<</SYS>>\n\n Hi [/INST] Yes </s>");
  EXPECT_EQ(text_of(pieces("llama3", messages)),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nYes<|eot_id|>");
  EXPECT_EQ(text_of(pieces("chatml", messages)),
            "<|im_start|>system\n Be kind. <|im_end|>\n<|im_start|>user\n Hi<|im_end|>\n"
            "<|im_start|>assistant\nYes<|im_end|>\n");
  EXPECT_EQ(text_of(pieces("gemma", messages)),
            "<bos><start_of_turn>user\n Be kind. \n\nHi<end_of_turn>\n"
            "<start_of_turn>model\nYes<end_of_turn>\n");
}

TEST(ChatTemplate, EndsWithTheAssistantsHeaderWhereAsked) {
  const std::vector<ChatMessage> messages = {{"user", "Hi"}};
  EXPECT_EQ(text_of(pieces("llama2", messages, Ending::assistant_opens)), "<s>[INST] Hi [/INST]");
  EXPECT_EQ(
      text_of(pieces("llama3", messages, Ending::assistant_opens)),
      text_of(pieces("llama3", messages)) + "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(text_of(pieces("gemma", messages, Ending::assistant_opens)),
            text_of(pieces("gemma", messages)) + "<start_of_turn>model\n");
  EXPECT_EQ(text_of(pieces("chatml", messages, Ending::assistant_opens)),
            text_of(pieces("chatml", messages)) + "<|im_start|>assistant\n");
}

TEST(ChatTemplate, TheAssistantsTurnHasAnEnd) {
  for (const char* name : kNames) {
    std::optional<int32_t> end;
    for (const ChatPiece& piece : pieces(name, kTurns))
      if (piece.is_completion) end = piece.special_id;
    EXPECT_EQ(ChatTemplate::named(name).end_of_turn(tokenizer_of(name)), end) << name;
  }
}

// Special tokens and the texts between them, joined, give the ids of the whole text.
TEST(ChatTemplate, PiecesGiveTheIdsOfTheWholeText) {
  for (const char* name : kNames) {
    const Tokenizer& tokenizer = tokenizer_of(name);
    std::vector<int32_t> ids;
    std::string run;
    auto append_run = [&] {
      const std::vector<int32_t> of_run = tokenizer.encode(run);
      ids.insert(ids.end(), of_run.begin(), of_run.end());
      run.clear();
    };
    const auto all = pieces(name, kTurns);
    for (const ChatPiece& piece : all) {
      if (!piece.special_id) {
        run += piece.text;
        continue;
      }
      append_run();
      ids.push_back(*piece.special_id);
    }
    append_run();
    EXPECT_EQ(ids, tokenizer.encode(text_of(all))) << name;
  }
}

TEST(ChatTemplate, RefusesConversationsThatTheTemplateForbids) {
  auto message = [](const std::string& name, const std::vector<ChatMessage>& messages) {
    return message_of<DataError>([&] { pieces(name, messages); });
  };
  for (const char* name : kNames) {
    EXPECT_THAT(message(name, {}), HasSubstr("no messages"));
    EXPECT_THAT(
        message(name, {{"user", "a"}, {"tool", "b"}}),
        HasSubstr("message 1: expected system, user or assistant, found the role \"tool\""));
  }
  for (const char* name : {"llama2", "gemma"}) {
    EXPECT_THAT(message(name, {{"user", "a"}, {"user", "b"}}),
                HasSubstr("message 1: expected assistant"));
    EXPECT_THAT(message(name, {{"assistant", "a"}}), HasSubstr("message 0: expected user"));
    EXPECT_THAT(message(name, {{"user", "a"}, {"assistant", "b"}, {"assistant", "c"}}),
                HasSubstr("message 2: expected user"));
  }
  for (const char* name : {"llama2", "gemma"}) {
    EXPECT_THAT(message(name, {{"system", "a"}}), HasSubstr("found none"));
    EXPECT_THAT(message(name, {{"user", "a"}, {"system", "b"}}), HasSubstr("message 1"));
  }
  EXPECT_EQ(text_of(pieces("chatml", {{"user", "a"}, {"user", "b"}})),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>user\nb<|im_end|>\n");
}

TEST(ChatTemplate, NamesWhatIsMissing) {
  const std::string token = message_of<DataError>(
      [] { ChatTemplate::named("chatml").pieces(kTurns, tokenizer_of("gemma")); });
  EXPECT_THAT(token, HasSubstr("needs the token \"<|im_start|>\", which the tokenizer lacks"));
  const std::string name = message_of<ConfigError>([] { ChatTemplate::named("llama-3"); });
  EXPECT_THAT(name,
              HasSubstr("\"llama-3\"; there are llama2, llama3, gemma, chatml; nearest: llama3"));
}

}  // namespace
}  // namespace longshore::data
