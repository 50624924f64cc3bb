// Which chat template writes conversations.
#pragma once

#include <string>
#include <vector>

namespace longshore::data {

// "auto": the folder's template, or none where it has none.
inline constexpr const char *kAutoTemplate = "auto", *kNoTemplate = "none";

struct ChatTemplateChoice {
  // kAutoTemplate, kNoTemplate, one of kChatTemplates, a file's path that ends with ".jinja", or
  // the name of one that the folder has beside its default: "tool_use", "rag".
  std::string name = kAutoTemplate;
  // What the template reads further, "NAME=VALUE"; a value in JSON, or else a string.
  std::vector<std::string> kwargs = {};
  std::string date = {};  // YYYY-MM-DD, of strftime_now(); empty: there is no such function

  // Rather than left to what the folder has.
  bool is_named() const { return name != kAutoTemplate && name != kNoTemplate; }
};

}  // namespace longshore::data
