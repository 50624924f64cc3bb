#include "longshore/data/text/find_chat_template.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/files/small_file.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr uint64_t kMostMib = 16;
constexpr const char *kDefault = "default", *kToolUse = "tool_use", *kKey = "chat_template",
                     *kExtension = ".jinja";

struct Source {
  std::string text;
  fs::path file;
};
using Sources = std::map<std::string, Source>;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// An empty object where there is none.
ordered_json object_in(const fs::path& path) {
  if (!is_there(path)) return ordered_json::object();
  const std::string text = read_small_file(path, kMostMib);
  ordered_json object;
  try {
    object = ordered_json_tree(text);
  } catch (const DataError& error) {
    throw DataError(path_text(path) + ": " + error.what());
  }
  if (!object.is_object()) throw DataError(path_text(path) + ": expected an object");
  return object;
}

void add(const ordered_json& value, const fs::path& file, const std::string& name,
         Sources& sources) {
  if (!value.is_string())
    throw DataError(path_text(file) + ": " + kKey + ": expected a template, found " + shown(value));
  sources.try_emplace(name, Source{value.get<std::string>(), file});
}

void add_of_config(const fs::path& file, Sources& sources) {
  const ordered_json config = object_in(file);
  const ordered_json value = config.value(kKey, ordered_json());
  if (value.is_null()) return;
  if (!value.is_array()) return add(value, file, kDefault, sources);
  for (const auto& each : value) {
    if (!each.is_object() || !each.value("name", ordered_json()).is_string())
      throw DataError(path_text(file) + ": " + kKey +
                      ": expected a list of objects with name and template, found " + shown(each));
    add(each.value("template", ordered_json()), file, each["name"].get<std::string>(), sources);
  }
}

Sources sources_in(const fs::path& folder) {
  constexpr size_t kMostFiles = 64;
  Sources sources;
  auto add_file = [&](const fs::path& file, const std::string& name) {
    if (is_there(file) && sources.size() < kMostFiles)
      sources.try_emplace(name, Source{read_small_file(file, kMostMib), file});
  };
  add_file(folder / "chat_template.jinja", kDefault);
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder / "additional_chat_templates", error))
    if (entry.path().extension() == kExtension) add_file(entry.path(), entry.path().stem());
  if (!sources.empty()) return sources;
  for (const char* name : {"tokenizer_config.json", "chat_template.json"})
    add_of_config(folder / name, sources);
  return sources;
}

// As transformers has them: {"content": ...} or the token itself.
void add_special_tokens(const ordered_json& config, ordered_json& values) {
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("_token") || values.contains(key)) continue;
    const ordered_json token = value.is_object() ? value.value("content", ordered_json()) : value;
    if (token.is_string()) values[key] = token;
  }
}

ordered_json special_tokens(const fs::path& folder, const Tokenizer& tokenizer) {
  ordered_json values = ordered_json::object();
  const ordered_json config = object_in(folder / "tokenizer_config.json");
  add_special_tokens(config, values);
  add_special_tokens(object_in(folder / "special_tokens_map.json"), values);
  for (const auto& [key, id] :
       {std::pair{"bos_token", tokenizer.bos_id()}, std::pair{"eos_token", tokenizer.eos_id()}})
    if (id >= 0 && !values.contains(key) && !config.contains(key))
      values[key] = tokenizer.spelling(id);
  return values;
}

ordered_json value_of(const std::string& text) {
  try {
    return ordered_json_tree(text);
  } catch (const DataError&) {
    return text;
  }
}

std::tm day(const std::string& text) {
  std::tm date{};
  const char* const end = strptime(text.c_str(), "%Y-%m-%d", &date);
  std::tm day = date;
  const bool is_there = timegm(&day) != -1 && day.tm_mday == date.tm_mday;
  if (text.size() != std::string_view("YYYY-MM-DD").size() || end == nullptr || *end != '\0' ||
      !is_there)
    throw ConfigError("chat_template_date: found " + in_quotes(text) +
                      ", expected a day, such as 2026-07-26");
  return date;
}

TemplateVariables variables(const ChatTemplateChoice& choice, const fs::path& folder,
                            const Tokenizer& tokenizer) {
  static const std::array<std::string, 4> kOwn{"messages", "tools", "documents",
                                               "add_generation_prompt"};
  TemplateVariables result{.values = special_tokens(folder, tokenizer)};
  for (const std::string& item : choice.kwargs) {
    const size_t sign = item.find('=');
    const std::string name = item.substr(0, sign);
    if (sign == item.npos || name.empty())
      throw ConfigError("chat_template_kwargs: found " + excerpt(item) +
                        ", expected NAME=VALUE, such as enable_thinking=false");
    if (std::ranges::find(kOwn, name) != kOwn.end())
      throw ConfigError("chat_template_kwargs: found " + name +
                        ", which the conversation itself says; expected another name");
    result.values[name] = value_of(item.substr(sign + 1));
  }
  if (!choice.date.empty()) result.date = day(choice.date);
  return result;
}

ChatTemplate make(const Source& source, const Source* tool_source, TemplateVariables variables) {
  try {
    return ChatTemplate(path_text(source.file), source.text, std::move(variables),
                        tool_source ? tool_source->text : "");
  } catch (const DataError& error) {
    const bool is_json = source.file.extension() == ".json";
    throw DataError(path_text(source.file) + ": " + (is_json ? "chat_template: " : "") +
                    error.what());
  }
}

const Source* find(const Sources& sources, const std::string& name) {
  const auto found = sources.find(name);
  return found == sources.end() ? nullptr : &found->second;
}

[[noreturn]] void refuse(const std::string& name, const fs::path& folder, const Sources& sources) {
  std::vector<std::string> names{kAutoTemplate, kNoTemplate};
  names.insert(names.end(), kChatTemplates.begin(), kChatTemplates.end());
  for (const auto& [each, source] : sources) names.push_back(each);
  throw ConfigError("found " + in_quotes(name) + ", expected one of " + join(names) +
                    ", or a file's path that ends with .jinja" +
                    (sources.empty() ? "; " + path_text(folder) + " has no templates" : "") +
                    nearest_help(nearest(name, names)));
}

}  // namespace

std::optional<ChatTemplate> find_chat_template(const ChatTemplateChoice& choice,
                                               const fs::path& folder, const Tokenizer& tokenizer) {
  const std::string& name = choice.name;
  if (name == kNoTemplate) return std::nullopt;
  if (is_built_in(name)) {
    if (!choice.kwargs.empty() || !choice.date.empty())
      throw ConfigError(
          std::string(choice.kwargs.empty()
                          ? "chat_template_date: found " + choice.date
                          : "chat_template_kwargs: found " + excerpt(join(choice.kwargs))) +
          ", of which the template " + name + " reads nothing; expected none");
    return ChatTemplate::named(name);
  }
  if (name.ends_with(kExtension))
    return make({read_small_file(name, kMostMib), name}, nullptr,
                variables(choice, folder, tokenizer));
  const Sources sources = sources_in(folder);
  const bool is_auto = name == kAutoTemplate;
  const Source* source = find(sources, is_auto ? kDefault : name);
  if (!source && is_auto) return std::nullopt;
  if (!source) refuse(name, folder, sources);
  return make(*source, is_auto ? find(sources, kToolUse) : nullptr,
              variables(choice, folder, tokenizer));
}

}  // namespace longshore::data
