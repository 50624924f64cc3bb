// The chat templates that have names here, as Jinja.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::data {

// The templates that are built in.
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
// <start_of_image>.
inline const std::array<std::string, 4> kChatTemplates = {"llama2", "llama3", "gemma", "chatml"};

inline bool is_built_in(std::string_view name) {
  return std::ranges::find(kChatTemplates, name) != kChatTemplates.end();
}

struct BuiltInTemplate {
  const char* source;
  std::vector<std::string> special_tokens;  // that it writes; the last ends the assistant's turn
};

// One of kChatTemplates. Throws a ConfigError on another name.
const BuiltInTemplate& built_in_template(std::string_view name);

}  // namespace longshore::data
