#include "longshore/data/text/chat_template.h"

#include <algorithm>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/printable.h"
#include "longshore/data/files/fnv1a.h"
#include "longshore/data/jinja/jinja_template.h"

namespace longshore::data {
namespace {

using nlohmann::ordered_json;

// What a template can do with content.
enum class Content {
  text,   // it writes strings, and would fail on a list of parts or show its braces
  parts,  // the other way round
  either
};

// As transformers gives a message's reasoning by the names that templates know it by.
void name_reasoning(ordered_json& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"})
    if (const auto found = message.find(name); found != message.end()) {
      const ordered_json thought = *found;
      message["reasoning_content"] = message["thinking"] = thought;
      return;
    }
}

// Some templates fail on a call without content, others tell it by that. Whether there was one.
bool fill_content_beside_calls(ordered_json& messages) {
  bool is_filled = false;
  for (auto& message : messages) {
    if (!message.contains("tool_calls") || !message.value("content", ordered_json()).is_null())
      continue;
    message["content"] = "";
    is_filled = true;
  }
  return is_filled;
}

// "<bos>" and the like, each once.
std::vector<std::string> names_in_brackets(std::string_view source) {
  constexpr size_t kMostBytes = 64;
  std::vector<std::string> names;
  for (size_t at = source.find('<'); at != source.npos; at = source.find('<', at + 1)) {
    const size_t end = source.find_first_of("> \t\n'\"", at);
    if (end == source.npos || source[end] != '>' || end - at > kMostBytes) continue;
    std::string name(source.substr(at, end + 1 - at));
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

struct ChatTemplate::Parts {
  std::string name, source, tool_source;
  TemplateVariables variables;
  JinjaTemplate jinja;
  std::optional<JinjaTemplate> tool_jinja;
  std::vector<std::string> required;  // special tokens
  Content content = Content::either;
  bool opens_when_asked = true;

  const JinjaTemplate& for_tools(bool has_tools) const {
    return has_tools && tool_jinja ? *tool_jinja : jinja;
  }

  ordered_json variables_for(ordered_json messages, const ordered_json& tools,
                             Ending ending) const {
    ordered_json all = variables.values;
    all.update({{"messages", std::move(messages)},
                {"tools", tools},
                {"documents", nullptr},
                {"add_generation_prompt", ending == Ending::assistant_opens}});
    return all;
  }

  // Of one message of the user.
  std::string text_with(const ordered_json& content_of_user, Ending ending) const {
    ordered_json messages = ordered_json::array();
    messages.push_back({{"role", "user"}, {"content", content_of_user}});
    return jinja.render(variables_for(std::move(messages), nullptr, ending), variables.date).text;
  }

  // Whether it writes a user's content as it stands.
  bool writes(const ordered_json& content_of_user) const {
    try {
      const std::string text = text_with(content_of_user, Ending::complete);
      return text.find("quay") != text.npos && text.find("'type'") == text.npos &&
             text.find("\"type\"") == text.npos;
    } catch (const DataError&) {
      return false;
    }
  }

  bool finds_whether_to_open() const {
    try {
      return text_with("quay", Ending::complete) != text_with("quay", Ending::assistant_opens);
    } catch (const DataError&) {
      return false;
    }
  }

  Content content_that_it_writes() const {
    ordered_json parts = ordered_json::array();
    parts.push_back({{"type", "text"}, {"text", "quay"}});
    if (!writes(parts)) return Content::text;
    return writes("quay") ? Content::either : Content::parts;
  }

  // As the template can read it.
  ordered_json readable(const ordered_json& message, size_t index) const {
    ordered_json result = message;
    name_reasoning(result);
    if (content == Content::text && result.value("content", ordered_json()).is_array()) {
      if (image_count(message) > 0)
        throw DataError("message " + std::to_string(index) +
                        ": found an image, for which the chat template " + name +
                        " writes no place");
      result["content"] = text_of(message);
    } else if (content == Content::parts && result.value("content", ordered_json()).is_string()) {
      ordered_json parts = ordered_json::array();
      parts.push_back({{"type", "text"}, {"text", message["content"]}});
      result["content"] = std::move(parts);
    }
    return result;
  }

  // A built-in one would write what it does not know as "None".
  void require_plain(const Conversation& conversation) const {
    if (!conversation.tools.is_null())
      throw DataError("found tools, of which the chat template " + name +
                      " knows nothing; nearest: chat_template=auto, the model's own");
    for (size_t i = 0; i < conversation.messages.size(); ++i)
      if (!conversation.messages[i].contains("content") ||
          conversation.messages[i]["content"].is_null())
        throw DataError("message " + std::to_string(i) +
                        ": found no content, without which the chat template " + name +
                        " writes nothing; nearest: chat_template=auto, the model's own");
  }
};

ChatTemplate ChatTemplate::named(std::string_view name) {
  const BuiltInTemplate& built_in = built_in_template(name);
  return ChatTemplate(std::make_shared<Parts>(Parts{.name = std::string(name),
                                                    .source = built_in.source,
                                                    .jinja = JinjaTemplate(built_in.source),
                                                    .required = built_in.special_tokens}));
}

ChatTemplate::ChatTemplate(std::shared_ptr<Parts> parts) {
  if (!parts->tool_source.empty()) parts->tool_jinja.emplace(parts->tool_source);
  parts->content = parts->content_that_it_writes();
  parts->opens_when_asked = parts->finds_whether_to_open();
  parts_ = std::move(parts);
}

ChatTemplate::ChatTemplate(std::string name, std::string source, TemplateVariables variables,
                           std::string tool_source)
    : ChatTemplate(std::make_shared<Parts>(Parts{.name = std::move(name),
                                                 .source = source,
                                                 .tool_source = std::move(tool_source),
                                                 .variables = std::move(variables),
                                                 .jinja = JinjaTemplate(source)})) {}

JinjaText ChatTemplate::text(const Conversation& conversation, size_t messages,
                             Ending ending) const {
  if (is_built_in()) parts_->require_plain(conversation);
  ordered_json readable = ordered_json::array();
  for (size_t i = 0; i < messages; ++i)
    readable.push_back(parts_->readable(conversation.messages[i], i));
  const JinjaTemplate& jinja = parts_->for_tools(!conversation.tools.is_null());
  auto render = [&] {
    return jinja.render(parts_->variables_for(readable, conversation.tools, ending),
                        parts_->variables.date);
  };
  try {
    try {
      return render();
    } catch (const DataError&) {
      if (!fill_content_beside_calls(readable)) throw;
      return render();
    }
  } catch (const RaisedByTemplate& error) {
    throw DataError("the chat template " + name() +
                    " refuses the conversation: " + excerpt(error.what()));
  } catch (const DataError& error) {
    const std::string message = error.what();
    const bool lacks_date = message.find("strftime_now") != message.npos && !parts_->variables.date;
    throw DataError(
        "chat template " + name() + ": " + message +
        (lacks_date ? "; nearest: chat_template_date=YYYY-MM-DD, the day that it shows" : ""));
  }
}

bool ChatTemplate::opens_when_asked() const { return parts_->opens_when_asked; }

bool ChatTemplate::has_generation(const Conversation& conversation) const {
  return parts_->for_tools(!conversation.tools.is_null()).has_generation();
}

void ChatTemplate::require_special_tokens(const Tokenizer& tokenizer) const {
  for (const std::string& token : parts_->required)
    if (!tokenizer.id_of(token))
      throw DataError(path_text(tokenizer.path()) + ": the chat template needs the token " +
                      in_quotes(token) + ", which the tokenizer lacks; add_tokens would add it");
}

std::vector<std::string> ChatTemplate::special_tokens(const Tokenizer& tokenizer) const {
  std::vector<std::string> tokens;
  for (const std::string& name : names_in_brackets(source() + parts_->tool_source))
    if (tokenizer.id_of(name)) tokens.push_back(name);
  return tokens;
}

std::optional<int32_t> ChatTemplate::end_of_turn(const Tokenizer& tokenizer) const {
  require_special_tokens(tokenizer);
  constexpr std::string_view kAnswer = "quay";
  Conversation conversation = user_says("Where?");
  conversation.messages.push_back({{"role", kAssistant}, {"content", kAnswer}});
  conversation.messages.push_back(conversation.messages[0]);
  // Some end a turn only where another follows.
  for (const size_t messages : {size_t{2}, size_t{3}}) {
    std::string written;
    try {
      written = text(conversation, messages).text;
    } catch (const DataError&) {
      return std::nullopt;
    }
    const size_t answer = std::min(written.rfind(kAnswer), written.size());
    for (const TextPart& part : tokenizer.split(std::string_view(written).substr(answer)))
      if (part.id >= 0) return part.id;
  }
  return std::nullopt;
}

const std::string& ChatTemplate::name() const { return parts_->name; }
const std::string& ChatTemplate::source() const { return parts_->source; }
bool ChatTemplate::is_built_in() const { return !parts_->required.empty(); }

uint64_t ChatTemplate::fingerprint() const {
  uint64_t hash = fnv1a(parts_->source);
  hash = fnv1a(parts_->tool_source + json_text(parts_->variables.values), hash);
  if (!parts_->variables.date) return hash;
  const std::tm& date = *parts_->variables.date;
  return fnv1a(std::to_string(date.tm_year * 366 + date.tm_yday), hash);
}

}  // namespace longshore::data
