// A Conversation is a list of messages, as chat templates read them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longshore/data/images/image_source.h"

namespace longshore::data {

struct Conversation {
  // Objects with a role, and content or what else templates read of them: tool_calls, name,
  // reasoning_content. Content is a string, null, or a list of parts, {"type": "text", "text": ...}
  // and {"type": "image"}.
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools = nullptr;  // a list of what the assistant may call; null: none
  std::vector<uint8_t> carries_loss;       // 1 or 0 for each message
};

inline constexpr const char* kAssistant = "assistant";

// Of what a data set has, OpenAI's spelling or ShareGPT's ("from" and "value"; the roles human,
// gpt, model, bot, function_call, observation, function). What the assistant says carries loss,
// unless the message has "loss" or "train" false, or "weight" 0. Nulls but those of content are no
// fields. `tools` may be a string of JSON, as tables have it. `name` is what messages call the
// list. Images of parts, whose payload goes to `images` in their order, are those of the part
// itself, or else the next of `line_images`, sources that have been read. Throws a DataError,
// without file and line, on what is no such list.
Conversation read_conversation(nlohmann::ordered_json messages, nlohmann::ordered_json tools,
                               const std::string& name, const std::vector<ImageSource>& line_images,
                               std::vector<ImageSource>& images);

// Whether a message that read_conversation() has not read is the assistant's.
bool is_of_assistant(const nlohmann::ordered_json& message);
// Puts a message of the system, if it says anything, before a list of messages.
void put_system_before(const std::string& system, nlohmann::ordered_json& messages);

// What a message says: its content, or the texts of its parts one behind the other.
std::string text_of(const nlohmann::ordered_json& message);

// How many parts are images.
int64_t image_count(const nlohmann::ordered_json& message);
int64_t image_count(const Conversation& conversation);

// Where one person says something, behind so many images.
Conversation user_says(const std::string& text, size_t images = 0);

}  // namespace longshore::data
