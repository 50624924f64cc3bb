#include "longshore/data/text/conversation.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"

namespace longshore::data {
namespace {

using nlohmann::ordered_json;

std::string_view standard_role(std::string_view role) {
  using Names = std::pair<std::string_view, std::string_view>;
  static constexpr std::array<Names, 9> kOthers{{{"human", "user"},
                                                 {"gpt", kAssistant},
                                                 {"chatgpt", kAssistant},
                                                 {"bot", kAssistant},
                                                 {"model", kAssistant},
                                                 {"function_call", kAssistant},
                                                 {"observation", "tool"},
                                                 {"function_response", "tool"},
                                                 {"function", "tool"}}};
  const auto* found = std::ranges::find(kOthers, role, &Names::first);
  return found == kOthers.end() ? role : found->second;
}

class MessageReader {
 public:
  MessageReader(std::string place, const std::vector<ImageSource>& line_images, size_t& next_image,
                std::vector<ImageSource>& images)
      : place_(std::move(place)),
        line_images_(line_images),
        next_image_(next_image),
        images_(images) {}

  // The message as templates read it; `carries_loss` becomes what it says of that.
  ordered_json read(ordered_json message, uint8_t& carries_loss) {
    if (!message.is_object())
      throw DataError(place_ + ": expected an object with role and content, found " +
                      kind_of(message));
    constexpr size_t kMostKeys = 1000;  // each is compared with those before
    if (message.size() > kMostKeys)
      throw DataError(place_ + ": found " + std::to_string(message.size()) +
                      " keys, expected at most " + std::to_string(kMostKeys));
    rename(message, "from", "role");
    rename(message, "value", "content");
    const std::string role = role_of(message);
    carries_loss = takes_loss(message, standard_role(role) == kAssistant);
    ordered_json result = ordered_json::object();
    const bool calls = role == "function_call";
    const bool has_calls =
        calls || (message.contains("tool_calls") && !message["tool_calls"].is_null());
    for (auto& [key, value] : message.items()) {
      if (value.is_null() && key != "content") continue;
      if (key == "role")
        result[key] = standard_role(role);
      else if (key == "content" && calls)
        result.update({{"content", nullptr}, {"tool_calls", ordered_json::array({called(value)})}});
      else if (key == "content")
        result[key] = content(std::move(value), standard_role(role) == "tool", has_calls);
      else
        result[key] = std::move(value);
    }
    const bool says = result.contains("content") || has_calls;
    if (!says)
      throw DataError(place_ + ": expected a content, found none" +
                      (message.empty() ? "" : " among the keys " + keys_of(message)));
    return result;
  }

 private:
  static void rename(ordered_json& message, const char* from, const char* to) {
    if (!message.contains(from) || message.contains(to)) return;
    ordered_json value = std::move(message[from]);
    message.erase(from);
    message[to] = std::move(value);
  }

  static std::string keys_of(const ordered_json& message) {
    constexpr size_t kMostShown = 8;
    std::vector<std::string> keys;
    for (const auto& item : message.items())
      if (keys.size() < kMostShown) keys.push_back(in_quotes(item.key()));
    return join(keys);
  }

  std::string role_of(const ordered_json& message) const {
    const ordered_json role = message.value("role", ordered_json());
    if (role.is_null())
      throw DataError(place_ + ": expected a role, found none" +
                      (message.empty() ? "" : " among the keys " + keys_of(message)));
    if (!role.is_string())
      throw DataError(place_ + ".role: expected a string, found " + kind_of(role));
    return role.get<std::string>();
  }

  // Takes what the message says of its loss.
  bool takes_loss(ordered_json& message, bool is_assistant) const {
    bool carries = is_assistant;
    for (const char* key : {"loss", "train", "weight"}) {
      const auto found = message.find(key);
      if (found == message.end()) continue;
      const bool is_one = *found == true || *found == 1;
      if (!found->is_null()) {
        if (!is_one && *found != false && *found != 0)
          throw DataError(place_ + "." + key + ": expected " +
                          (std::string_view(key) == "weight" ? "0 or 1" : "true or false") +
                          ", found " + kind_of(*found));
        if (is_one && !is_assistant)
          throw DataError(place_ + "." + key + ": found " + shown(*found) +
                          " on a message of the role " +
                          in_quotes(message["role"].get_ref<const std::string&>()) +
                          ", expected it of the assistant's alone; nearest: train_on=all");
        carries &= is_one;
      }
      message.erase(key);
    }
    return carries;
  }

  // ShareGPT's call of a function: {"name": ..., "arguments": {...}} in a string.
  ordered_json called(const ordered_json& value) const {
    ordered_json call;
    try {
      call = value.is_string() ? ordered_json_tree(value.get_ref<const std::string&>()) : value;
    } catch (const DataError&) {
    }
    if (!call.is_object() || !call.contains("name"))
      throw DataError(
          place_ + ": expected a function's call, {\"name\": ..., \"arguments\": ...}, " +
          "found " + excerpt(value.is_string() ? value.get<std::string>() : kind_of(value)));
    return {{"type", "function"}, {"function", std::move(call)}};
  }

  ordered_json content(ordered_json value, bool is_tools, bool has_calls) {
    if (value.is_string() || (value.is_null() && has_calls)) return value;
    if (value.is_array() && !value.empty()) {
      for (size_t i = 0; i < value.size(); ++i)
        value[i] = part(std::move(value[i]), place_ + ".content[" + std::to_string(i) + "]");
      const bool is_text = value.size() == 1 && value[0]["type"] == "text";
      return is_text ? std::move(value[0]["text"]) : std::move(value);
    }
    if (is_tools && value.is_object()) return value;
    if (value.is_null()) throw DataError(place_ + ": expected a content, found none");
    throw DataError(place_ + ".content: expected a string or a list of parts, found " +
                    (value.is_array() ? "an empty list" : kind_of(value)));
  }

  // A part without its image, which goes to the images.
  ordered_json part(ordered_json value, const std::string& place) {
    if (!value.is_object())
      throw DataError(place + ": expected an object with type and text or image, found " +
                      kind_of(value));
    for (auto item = value.begin(); item != value.end();)
      item = item->is_null() ? value.erase(item) : std::next(item);
    const std::string type = text_under(value, "type", place);
    if (type == "text") {
      if (!value.contains("text"))
        throw DataError(place + ": expected a text beside the type text, found none");
      return {{"type", type}, {"text", text_under(value, "text", place)}};
    }
    if (type != "image" && type != "image_url")
      throw DataError(place + ".type: expected text or image, found " +
                      (value.contains("type") ? in_quotes(type) : "none"));
    add_image(value, place);
    return {{"type", "image"}};
  }

  static std::string text_under(const ordered_json& object, const char* key,
                                const std::string& place) {
    const ordered_json value = object.value(key, ordered_json(""));
    if (!value.is_string())
      throw DataError(place + "." + key + ": expected a string, found " + kind_of(value));
    return value.get<std::string>();
  }

  void add_image(const ordered_json& part, const std::string& place) {
    std::string key;
    for (const char* name : {"image", "path", "url", "image_url"})
      if (part.contains(name)) {
        if (!key.empty())
          throw DataError(place + ": found " + key + " and " + name + ", expected one image");
        key = name;
      }
    if (key.empty()) {
      if (next_image_ < line_images_.size()) images_.push_back(line_images_[next_image_]);
      ++next_image_;
      return;
    }
    // OpenAI's is an object with a url.
    const bool is_object = part[key].is_object();
    const std::string name = place + "." + key + (is_object ? ".url" : "");
    const std::string text = is_object ? text_under(part[key], "url", place + "." + key)
                                       : text_under(part, key.c_str(), place);
    try {
      images_.push_back(parse_image_source(text));
    } catch (const DataError& error) {
      throw DataError(name + ": " + error.what());
    }
  }

  std::string place_;
  const std::vector<ImageSource>& line_images_;
  size_t& next_image_;
  std::vector<ImageSource>& images_;
};

// As tables have it, which know no values of any kind.
ordered_json read_tools(ordered_json tools) {
  if (tools.is_string()) {
    const std::string text = tools.get<std::string>();
    if (text.empty()) return nullptr;
    try {
      tools = ordered_json_tree(text);
    } catch (const DataError& error) {
      throw DataError("tools: expected a list in JSON: " + std::string(error.what()));
    }
  }
  if (tools.is_null() || (tools.is_array() && tools.empty())) return nullptr;
  if (!tools.is_array())
    throw DataError("tools: expected a list of what the assistant may call, found " +
                    kind_of(tools));
  return tools;
}

}  // namespace

Conversation read_conversation(ordered_json messages, ordered_json tools, const std::string& name,
                               const std::vector<ImageSource>& line_images,
                               std::vector<ImageSource>& images) {
  if (!messages.is_array())
    throw DataError(name + ": expected a list of objects with role and content, found " +
                    kind_of(messages));
  Conversation conversation{.tools = read_tools(std::move(tools))};
  size_t next_image = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    MessageReader reader(name + "[" + std::to_string(i) + "]", line_images, next_image, images);
    uint8_t carries_loss = 0;
    conversation.messages.push_back(reader.read(std::move(messages[i]), carries_loss));
    conversation.carries_loss.push_back(carries_loss);
  }
  if (next_image != line_images.size())
    throw DataError("found " + plural(std::ssize(line_images), "image") + ", expected " +
                    std::to_string(next_image) +
                    R"(: one for each part {"type": "image"} of the messages' content that has )"
                    "none of its own");
  return conversation;
}

bool is_of_assistant(const ordered_json& message) {
  if (!message.is_object()) return false;
  for (const char* name : {"role", "from"})
    if (const auto role = message.find(name); role != message.end() && role->is_string())
      return standard_role(role->get_ref<const std::string&>()) == kAssistant;
  return false;
}

void put_system_before(const std::string& system, ordered_json& messages) {
  if (!messages.is_array() || system.empty()) return;
  messages.insert(messages.begin(), ordered_json{{"role", "system"}, {"content", system}});
}

std::string text_of(const ordered_json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return "";
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (content->is_array())
    for (const auto& part : *content)
      if (part["type"] == "text") text += part["text"].get_ref<const std::string&>();
  return text;
}

int64_t image_count(const ordered_json& message) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return 0;
  return std::ranges::count_if(*content, [](const auto& part) { return part["type"] == "image"; });
}

int64_t image_count(const Conversation& conversation) {
  int64_t count = 0;
  for (const auto& message : conversation.messages) count += image_count(message);
  return count;
}

Conversation user_says(const std::string& text, size_t images) {
  ordered_json content = text;
  if (images > 0) {
    content = ordered_json::array();
    for (size_t i = 0; i < images; ++i) content.push_back({{"type", "image"}});
    content.push_back({{"type", "text"}, {"text", text}});
  }
  Conversation conversation{.carries_loss = {0}};
  conversation.messages.push_back({{"role", "user"}, {"content", std::move(content)}});
  return conversation;
}

}  // namespace longshore::data
