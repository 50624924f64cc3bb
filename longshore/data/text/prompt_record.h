// A PromptRecord is a text or a conversation that a model is to go on with, as a record of a file
// of prompts holds it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "longshore/data/text/conversation.h"

namespace longshore::data {

struct PromptRecord {
  std::variant<std::string, Conversation> prompt;

  // {"prompt": ...}, or {"messages": [...]}.
  nlohmann::ordered_json json() const;
};

// Reads one record by its columns: `prompt`, a string or a list of messages, or `messages`, with
// `tools` and `system` beside them as read_example() has them. What the assistant says at the end
// is left out, so that a file to train on serves. Nulls are no columns, and others are ignored.
// Throws a DataError, without file and line, on what is no JSON or not exactly one of these, on
// images, and where no message is left.
PromptRecord read_prompt(std::string_view record);

// The prompts of a file, one after the other: records (has_records()), or paragraphs of plain text.
// `place` is where one stands, for messages: "a.jsonl:3". Throws a DataError with file and line.
void read_prompts(const std::filesystem::path& path,
                  const std::function<void(PromptRecord prompt, const std::string& place)>& take);

}  // namespace longshore::data
