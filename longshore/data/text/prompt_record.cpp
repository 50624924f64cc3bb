#include "longshore/data/text/prompt_record.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"
#include "longshore/data/files/text_format.h"
#include "longshore/data/text/document_reader.h"
#include "longshore/data/text/open_records.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

const std::vector<std::string>& columns() {
  static const std::vector<std::string> names{"prompt", "messages", "tools", "system"};
  return names;
}

Conversation conversation_of(ordered_json messages, ordered_json& record, const std::string& name) {
  const ordered_json system = record.value("system", ordered_json(""));
  if (!system.is_string()) throw DataError("system: expected a string, found " + kind_of(system));
  put_system_before(system.get<std::string>(), messages);
  std::vector<ImageSource> images;
  Conversation conversation = read_conversation(
      std::move(messages), record.value("tools", ordered_json()), name, {}, images);
  if (!images.empty()) throw DataError(name + ": found an image, expected text alone");
  while (!conversation.messages.empty() && conversation.messages.back()["role"] == kAssistant) {
    conversation.messages.erase(conversation.messages.size() - 1);
    conversation.carries_loss.pop_back();
  }
  if (conversation.messages.empty())
    throw DataError(name + ": found no message but the assistant's, expected one to answer");
  return conversation;
}

}  // namespace

ordered_json PromptRecord::json() const {
  if (const auto* text = std::get_if<std::string>(&prompt)) return {{"prompt", *text}};
  return {{"messages", std::get<Conversation>(prompt).messages}};
}

PromptRecord read_prompt(std::string_view text) {
  if (const std::string fault = utf8_fault(text); !fault.empty()) throw DataError(fault);
  std::string closest;
  ordered_json record = ordered_json_object(text, [&](const std::string& name) {
    const bool is_known = std::ranges::find(columns(), name) != columns().end();
    if (!is_known && closest.empty()) closest = nearest(name, columns());
    return is_known;
  });
  for (auto column = record.begin(); column != record.end();)
    column = column->is_null() ? record.erase(column) : std::next(column);
  const bool has_prompt = record.contains("prompt"), has_messages = record.contains("messages");
  if (has_prompt == has_messages)
    throw DataError(std::string("expected prompt or messages, found ") +
                    (has_prompt ? "both" : "neither" + nearest_help(closest)));
  const std::string name = has_prompt ? "prompt" : "messages";
  ordered_json value = std::move(record[name]);
  if (has_prompt && value.is_string()) return {value.get<std::string>()};
  if (has_prompt && !value.is_array())
    throw DataError("prompt: expected a string or a list of messages, found " + kind_of(value));
  return {conversation_of(std::move(value), record, name)};
}

void read_prompts(const fs::path& path,
                  const std::function<void(PromptRecord, const std::string&)>& take) {
  if (!has_records(path)) {
    DocumentReader reader(path);
    int64_t number = 0;
    for (std::string text; reader.next(text);)
      take({text}, path_text(path) + ": paragraph " + std::to_string(++number));
    return;
  }
  each_record<PromptRecord>(path, columns(), read_prompt, take);
}

}  // namespace longshore::data
