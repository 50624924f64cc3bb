#include "longshore/data/text/preference_answers.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/printable.h"
#include "longshore/data/text/conversation.h"

namespace longshore::data {
namespace {

using nlohmann::ordered_json;

void expect_answer(const ordered_json& answer, const std::string& name) {
  const bool is_text_or_list = answer.is_string() || answer.is_array();
  if (!is_text_or_list)
    throw DataError(name + ": expected a string or a list of messages, found " + kind_of(answer));
  const bool is_empty =
      answer.is_string() ? answer.get_ref<const std::string&>().empty() : answer.empty();
  if (is_empty) throw DataError(name + ": found nothing, expected an answer to learn");
}

ordered_json tail(const ordered_json& list, size_t begin) {
  ordered_json result = ordered_json::array();
  for (size_t i = begin; i < list.size(); ++i) result.push_back(list[i]);
  return result;
}

// How much of either is the prompt, in elements, which are bytes or messages; less than of both.
template <class Elements>
size_t common_beginning(const Elements& a, const Elements& b) {
  const size_t most = std::min(a.size(), b.size()) - 1;
  size_t common = 0;
  while (common < most && a[common] == b[common]) ++common;
  return common;
}

PreferenceAnswers split_strings(const std::string& chosen, const std::string& rejected) {
  size_t common = common_beginning(chosen, rejected);
  const bool differs = chosen[common] != rejected[common];
  auto is_inside = [](const std::string& text, size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;  // of a character in UTF-8
  };
  while (common > 0 && (is_inside(chosen, common) || is_inside(rejected, common))) --common;
  if (common > 0 && differs && chosen[common - 1] == ' ') --common;
  return {chosen.substr(0, common), chosen.substr(common), rejected.substr(common)};
}

PreferenceAnswers split_lists(const ordered_json& chosen, const ordered_json& rejected) {
  const size_t common = common_beginning(chosen, rejected);
  ordered_json prompt = ordered_json::array();
  for (size_t i = 0; i < common; ++i) prompt.push_back(chosen[i]);
  return {std::move(prompt), tail(chosen, common), tail(rejected, common)};
}

// The text of a message that nobody has looked at, or nothing.
std::string_view said_in(const ordered_json& message) {
  if (!message.is_object()) return {};
  for (const char* name : {"content", "value"})
    if (const auto found = message.find(name); found != message.end() && found->is_string())
      return found->get_ref<const std::string&>();
  return {};
}

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

// Whole conversations, beside which the prompt stands once more.
PreferenceAnswers split_around(const std::string& prompt, const PreferenceAnswers& columns,
                               const PreferenceNames& names) {
  PreferenceAnswers answers = split_lists(columns.chosen, columns.rejected);
  const bool is_there = std::ranges::any_of(answers.prompt, [&](const ordered_json& message) {
    return said_in(message).find(stripped(prompt)) != std::string_view::npos;
  });
  if (!is_there)
    throw DataError(names.prompt + ": found a text that is in none of the messages that " +
                    names.chosen + " and " + names.rejected +
                    " begin with; expected it there, or answers that begin with the assistant's "
                    "message");
  return answers;
}

bool begins_with(const ordered_json& list, const ordered_json& prompt) {
  return list.size() > prompt.size() && std::equal(prompt.begin(), prompt.end(), list.begin());
}

ordered_json list_of(const char* role, ordered_json content) {
  return ordered_json::array({{{"role", role}, {"content", std::move(content)}}});
}

PreferenceAnswers of_texts(PreferenceAnswers columns) {
  auto& [prompt, chosen, rejected] = columns;
  if (prompt.is_null())
    return split_strings(chosen.get_ref<const std::string&>(),
                         rejected.get_ref<const std::string&>());
  if (prompt.is_array()) {
    chosen = list_of(kAssistant, std::move(chosen));
    rejected = list_of(kAssistant, std::move(rejected));
  }
  return columns;
}

PreferenceAnswers of_lists(PreferenceAnswers columns, const PreferenceNames& names) {
  auto& [prompt, chosen, rejected] = columns;
  if (prompt.is_null()) return split_lists(chosen, rejected);
  if (prompt.is_string() && !is_of_assistant(chosen.front()))
    return split_around(prompt.get_ref<const std::string&>(), columns, names);
  if (prompt.is_string()) {
    prompt = list_of("user", std::move(prompt));
  } else if (begins_with(chosen, prompt) && begins_with(rejected, prompt)) {
    chosen = tail(chosen, prompt.size());
    rejected = tail(rejected, prompt.size());
  }
  return columns;
}

}  // namespace

PreferenceAnswers read_preference(PreferenceAnswers columns, const PreferenceNames& names) {
  const auto& [prompt, chosen, rejected] = columns;
  expect_answer(chosen, names.chosen);
  expect_answer(rejected, names.rejected);
  if (chosen.type() != rejected.type())
    throw DataError(names.rejected + ": expected " + kind_of(chosen) + ", as " + names.chosen +
                    " is, found " + kind_of(rejected));
  const bool is_prompt = prompt.is_null() || prompt.is_string() || prompt.is_array();
  if (!is_prompt)
    throw DataError(names.prompt + ": expected a string or a list of messages, found " +
                    kind_of(prompt));
  return chosen.is_string() ? of_texts(std::move(columns)) : of_lists(std::move(columns), names);
}

bool read_label(const ordered_json& value, const std::string& name) {
  for (const char* good : {"true", "True", "1"})
    if (value == good) return true;
  for (const char* bad : {"false", "False", "0"})
    if (value == bad) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value == 1) return true;
  if (value == 0) return false;
  throw DataError(name + ": expected true or false, or 1 or 0, found " +
                  (value.is_string() ? in_quotes(value.get<std::string>()) : kind_of(value)));
}

}  // namespace longshore::data
