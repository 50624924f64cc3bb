// A ChatTemplate writes conversations as the text that a model was tuned on, by a template in
// Jinja's language, with what transformers gives such a template.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/jinja/jinja_text.h"
#include "longshore/data/text/built_in_templates.h"
#include "longshore/data/text/conversation.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {

// What a template reads beside the conversation.
struct TemplateVariables {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  std::optional<std::tm> date = {};  // of strftime_now(), which is not there without
};

// Immutable, and cheap to copy.
class ChatTemplate {
 public:
  // Throws a ConfigError on a name that is none of kChatTemplates.
  static ChatTemplate named(std::string_view name);

  // A template by its source. `name` is what messages call it. Where it has a `tool_source`, that
  // one writes conversations with tools. Throws a DataError, with the line, on what is no template.
  ChatTemplate(std::string name, std::string source, TemplateVariables variables = {},
               std::string tool_source = {});

  enum class Ending {
    complete,         // after the last message
    assistant_opens,  // where the assistant is to write next
  };

  // The first `messages` of a conversation. Throws a DataError where the template does not allow
  // them.
  JinjaText text(const Conversation& conversation, size_t messages,
                 Ending ending = Ending::complete) const;

  // Whether add_generation_prompt is seen to make a difference.
  bool opens_when_asked() const;

  // Whether it says what the assistant writes of such a conversation, by {% generation %}.
  bool has_generation(const Conversation& conversation) const;

  // Throws a DataError where a built-in template writes special tokens that the tokenizer lacks.
  void require_special_tokens(const Tokenizer& tokenizer) const;

  // Names in angle brackets that it writes and the tokenizer knows as tokens.
  std::vector<std::string> special_tokens(const Tokenizer& tokenizer) const;

  // The special token that ends what the assistant writes: the first behind it, of the next message
  // where its own has none. Nothing where it writes none, or no plain question and answer.
  std::optional<int32_t> end_of_turn(const Tokenizer& tokenizer) const;

  const std::string& name() const;
  // As transformers' apply_chat_template reads it.
  const std::string& source() const;
  bool is_built_in() const;
  // A hash of all that decides what it writes.
  uint64_t fingerprint() const;

 private:
  struct Parts;
  explicit ChatTemplate(std::shared_ptr<Parts> parts);
  std::shared_ptr<const Parts> parts_;
};

}  // namespace longshore::data
