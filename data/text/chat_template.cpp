#include "data/text/chat_template.h"

#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "base/text.h"
#include "data/tokenizers/white_space.h"

namespace longshore::data {
namespace {

std::string stripped(std::string_view text) {
  text.remove_prefix(white_space_at_head(text));
  text.remove_suffix(white_space_at_end(text));
  return std::string(text);
}

// What ends the assistant's turn, in the order of kChatTemplates.
constexpr std::array<const char*, kChatTemplates.size()> kEndOfTurn = {
    "</s>", "<|eot_id|>", "<end_of_turn>", "<|im_end|>"};

enum class By { prompt, assistant };

// Collects pieces and resolves special tokens.
class Writer {
 public:
  explicit Writer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void special(const char* name, By by = By::prompt) {
    pieces_.push_back({name, special_id(name, tokenizer_), by == By::assistant});
  }

  void image() {
    special(kStartOfImage);
    pieces_.back().is_image = true;
  }

  void text(std::string text, By by = By::prompt) {
    if (!text.empty()) pieces_.push_back({std::move(text), std::nullopt, by == By::assistant});
  }

  std::vector<ChatPiece> take() { return std::move(pieces_); }

 private:
  const Tokenizer& tokenizer_;
  std::vector<ChatPiece> pieces_;
};

By writer_of(const ChatMessage& message) {
  return message.role == "assistant" ? By::assistant : By::prompt;
}

[[noreturn]] void refuse(size_t index, const ChatMessage& message, const std::string& expected) {
  throw DataError("message " + std::to_string(index) + ": expected " + expected +
                  ", found the role " + in_quotes(message.role));
}

void expect_known_roles(std::span<const ChatMessage> messages) {
  if (messages.empty()) throw DataError("expected a conversation, found no messages");
  for (size_t i = 0; i < messages.size(); ++i)
    if (messages[i].role != "system" && messages[i].role != "user" &&
        messages[i].role != "assistant")
      refuse(i, messages[i], "system, user or assistant");
}

// That from `first` on, user and assistant take turns.
void expect_turns(std::span<const ChatMessage> messages, size_t first) {
  if (first == messages.size()) throw DataError("expected a user's message, found none");
  for (size_t i = first; i < messages.size(); ++i) {
    const char* expected = (i - first) % 2 == 0 ? "user" : "assistant";
    if (messages[i].role != expected)
      refuse(i, messages[i], std::string(expected) + " (user and assistant take turns)");
  }
}

void expect_parts_of_gemma(std::span<const ChatMessage> messages, bool is_gemma) {
  for (size_t i = 0; i < messages.size(); ++i)
    if (!messages[i].parts.empty() && (!is_gemma || messages[i].role == "system"))
      throw DataError("message " + std::to_string(i) +
                      ": found content of several parts or with an image, expected a text; " +
                      (is_gemma ? "the template gemma writes such content of user and assistant"
                                : "nearest: the template gemma writes such content"));
}

void write_llama2(std::span<const ChatMessage> messages, const char* end, Writer& writer) {
  const size_t first = messages[0].role == "system" ? 1 : 0;
  expect_turns(messages, first);
  for (size_t i = first; i < messages.size(); ++i) {
    std::string content = messages[i].content;
    if (writer_of(messages[i]) == By::assistant) {
      writer.text(" " + stripped(content) + " ", By::assistant);
      writer.special(end, By::assistant);
      continue;
    }
    if (i == 1 && first == 1)
      content = "<<SYS>>\n" + messages[0].content + "\n<</SYS>>\n\n" + content;
    writer.special("<s>");
    writer.text("[INST] " + stripped(content) + " [/INST]");
  }
}

void write_llama3(std::span<const ChatMessage> messages, const char* end,
                  ChatTemplate::Ending ending, Writer& writer) {
  auto open = [&](const std::string& role) {
    writer.special("<|start_header_id|>");
    writer.text(role);
    writer.special("<|end_header_id|>");
    writer.text("\n\n");
  };
  writer.special("<|begin_of_text|>");
  for (const ChatMessage& message : messages) {
    open(message.role);
    writer.text(stripped(message.content), writer_of(message));
    writer.special(end, writer_of(message));
  }
  if (ending == ChatTemplate::Ending::assistant_opens) open("assistant");
}

void write_gemma(std::span<const ChatMessage> messages, const char* end,
                 ChatTemplate::Ending ending, Writer& writer) {
  const bool has_system = messages[0].role == "system";
  const auto turns = messages.subspan(has_system ? 1 : 0);
  expect_turns(messages, has_system ? 1 : 0);
  auto open = [&](const std::string& role) {
    writer.special("<start_of_turn>");
    writer.text(role + "\n");
  };
  writer.special("<bos>");
  for (const ChatMessage& message : turns) {
    open(message.role == "assistant" ? "model" : "user");
    const bool follows_system = has_system && &message == turns.data();
    writer.text((follows_system ? messages[0].content + "\n\n" : "") + stripped(message.content),
                writer_of(message));
    for (const ContentPart& part : message.parts)
      part.is_image ? writer.image() : writer.text(stripped(part.text), writer_of(message));
    writer.special(end, writer_of(message));
    writer.text("\n");
  }
  if (ending == ChatTemplate::Ending::assistant_opens) open("model");
}

void write_chatml(std::span<const ChatMessage> messages, const char* end,
                  ChatTemplate::Ending ending, Writer& writer) {
  auto open = [&](const std::string& role) {
    writer.special("<|im_start|>");
    writer.text(role + "\n");
  };
  for (const ChatMessage& message : messages) {
    open(message.role);
    writer.text(message.content, writer_of(message));
    writer.special(end, writer_of(message));
    writer.text("\n");
  }
  if (ending == ChatTemplate::Ending::assistant_opens) open("assistant");
}

}  // namespace

int32_t special_id(const char* name, const Tokenizer& tokenizer) {
  const std::optional<int32_t> id = tokenizer.id_of(name);
  if (!id)
    throw DataError(path_text(tokenizer.path()) + ": the chat template needs the token " +
                    in_quotes(name) + ", which the tokenizer lacks; add_tokens would add it");
  return *id;
}

ChatTemplate ChatTemplate::named(std::string_view name) {
  for (size_t i = 0; i < kChatTemplates.size(); ++i)
    if (name == kChatTemplates[i]) return ChatTemplate(static_cast<Family>(i));
  throw ConfigError("no chat template is named " + in_quotes(name) + "; there are " +
                    join(kChatTemplates) + nearest_help(nearest(name, kChatTemplates)));
}

std::vector<ChatPiece> ChatTemplate::pieces(std::span<const ChatMessage> messages,
                                            const Tokenizer& tokenizer, Ending ending) const {
  expect_known_roles(messages);
  expect_parts_of_gemma(messages, family_ == Family::gemma);
  const char* end = kEndOfTurn[static_cast<size_t>(family_)];
  Writer writer(tokenizer);
  switch (family_) {
    case Family::llama2:
      write_llama2(messages, end, writer);
      break;
    case Family::llama3:
      write_llama3(messages, end, ending, writer);
      break;
    case Family::gemma:
      write_gemma(messages, end, ending, writer);
      break;
    case Family::chatml:
      write_chatml(messages, end, ending, writer);
      break;
  }
  return writer.take();
}

std::vector<std::string> ChatTemplate::special_tokens() const {
  switch (family_) {
    case Family::llama2:
      return {"<s>", "</s>"};
    case Family::llama3:
      return {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
    case Family::gemma:
      return {"<bos>", "<start_of_turn>", "<end_of_turn>"};
    case Family::chatml:
      return {"<|im_start|>", "<|im_end|>"};
  }
  throw InternalError("no such chat template");
}

int32_t ChatTemplate::end_of_turn(const Tokenizer& tokenizer) const {
  return special_id(kEndOfTurn[static_cast<size_t>(family_)], tokenizer);
}

}  // namespace longshore::data
