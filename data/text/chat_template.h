// A ChatTemplate writes conversations as the text that instruction-tuned models were trained on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace longshore::data {

// A text, or the place of an image.
struct ContentPart {
  std::string text;
  bool is_image = false;
};

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
  std::vector<ContentPart> parts = {};  // instead of the content, where there are any
};

// A part of a conversation's text. Parts without a special token between them are one text to a
// tokenizer: their characters may share tokens.
struct ChatPiece {
  std::string text;                   // a special token's name, where it is one
  std::optional<int32_t> special_id;  // its id
  bool is_completion = false;         // what the assistant writes, the end of its turn included
  bool is_image = false;              // the place of an image, by the name of what begins one
};

// The special tokens around an image's in a model that has them in its text.
inline constexpr const char *kStartOfImage = "<start_of_image>", *kEndOfImage = "<end_of_image>";

inline const std::array<std::string, 4> kChatTemplates = {"llama2", "llama3", "gemma", "chatml"};

// The id of a special token by its name. Throws a DataError when the tokenizer lacks it.
int32_t special_id(const char* name, const Tokenizer& tokenizer);

// How a family of models writes conversations. Roles other than those three are errors.
//   llama2   <s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST] A </s><s>[INST] U [/INST]
//   llama3   <|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|>...
//            as Llama 3 has it: without the dates that Llama 3.1 puts into the system turn
//   gemma    <bos><start_of_turn>user\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n
//            with a system message at the head of the first user's, S\n\nU, as Gemma 3 has it;
//            Gemma 1 and 2 know none
//   chatml   <|im_start|>user\nU<|im_end|>\n...
//            no bos, and no system message but those given
// In llama2 and gemma user and assistant take turns, the user first, and a system message stands
// before them. Content is stripped of white space at both ends, but in chatml, and in llama2 and
// gemma the system's. Gemma alone writes content of parts: each text stripped, and for each image
// <start_of_image>; a system's content has no parts.
class ChatTemplate {
 public:
  // Throws a ConfigError on a name that is none of kChatTemplates.
  static ChatTemplate named(std::string_view name);

  enum class Ending {
    complete,         // after the last message
    assistant_opens,  // where the assistant is to write next
  };

  // Joined, the texts are what the template that the models were published with gives. Throws a
  // DataError on messages that the template does not allow, and when the tokenizer lacks a special
  // token.
  std::vector<ChatPiece> pieces(std::span<const ChatMessage> messages, const Tokenizer& tokenizer,
                                Ending ending = Ending::complete) const;

  // The same as a template of Jinja for transformers' apply_chat_template, which raises where
  // pieces() throws.
  std::string jinja() const;

  // The names of all special tokens that it writes.
  std::vector<std::string> special_tokens() const;

  // The special token that ends what the assistant writes. Throws a DataError when the tokenizer
  // lacks it.
  int32_t end_of_turn(const Tokenizer& tokenizer) const;

 private:
  enum class Family { llama2, llama3, gemma, chatml };
  explicit ChatTemplate(Family family) : family_(family) {}

  Family family_;
};

}  // namespace longshore::data
