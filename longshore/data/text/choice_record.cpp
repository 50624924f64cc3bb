#include "longshore/data/text/choice_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/nearest.h"
#include "longshore/base/utf8.h"
#include "longshore/data/text/open_records.h"
#include "longshore/data/tokenizers/white_space.h"

namespace longshore::data {
namespace {

using nlohmann::ordered_json;

const std::vector<std::string>& columns() {
  static const std::vector<std::string> names{"prompt", "choices", "answer"};
  return names;
}

std::string_view without_head(const std::string& text) {
  return std::string_view(text).substr(white_space_at_head(text));
}

std::vector<std::string> choices_in(const ordered_json& list) {
  if (!list.is_array())
    throw DataError("choices: expected a list of strings, found " + kind_of(list));
  if (list.size() < 2 || list.size() > kMostChoices)
    throw DataError("choices: found " + std::to_string(list.size()) + ", expected 2 to " +
                    std::to_string(kMostChoices));
  std::vector<std::string> choices;
  for (const ordered_json& choice : list) {
    const std::string place = "choices[" + std::to_string(choices.size()) + "]";
    if (!choice.is_string())
      throw DataError(place + ": expected a string, found " + kind_of(choice));
    choices.push_back(choice.get<std::string>());
    if (is_white_space(choices.back()))
      throw DataError(place + ": found " +
                      (choices.back().empty() ? "nothing" : "white space alone") +
                      ", expected some text");
    if (std::ranges::count(choices, choices.back()) > 1)
      throw DataError(place + ": found " + in_quotes(choices.back()) +
                      " again, expected choices that differ");
  }
  return choices;
}

size_t answer_in(const ordered_json& value, const std::vector<std::string>& choices) {
  const std::string expected = ", expected one of the choices, or its number, from 0 to " +
                               std::to_string(choices.size() - 1);
  if (value.is_number_unsigned() && value.get<uint64_t>() < choices.size())
    return value.get<size_t>();
  if (!value.is_string()) throw DataError("answer: found " + kind_of(value) + expected);
  const std::string text = value.get<std::string>();
  std::optional<size_t> found;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (without_head(choices[i]) != without_head(text)) continue;
    if (found)
      throw DataError("answer: found " + in_quotes(text) + ", which two of the choices are" +
                      expected);
    found = i;
  }
  if (!found)
    throw DataError("answer: found " + in_quotes(text) + expected +
                    nearest_help(nearest(text, choices)));
  return *found;
}

}  // namespace

ChoiceRecord read_choices(std::string_view text) {
  if (const std::string fault = utf8_fault(text); !fault.empty()) throw DataError(fault);
  std::vector<std::string> unknown;
  const ordered_json record = ordered_json_object(text, [&](const std::string& name) {
    constexpr size_t kMostUnknown = 8;
    const bool is_known = std::ranges::find(columns(), name) != columns().end();
    if (!is_known && unknown.size() < kMostUnknown) unknown.push_back(name);
    return is_known;
  });
  for (const std::string& name : columns())
    if (!record.contains(name)) {
      const std::string near = nearest(name, unknown);
      throw DataError("expected prompt, choices and answer, found no " + name +
                      nearest_help(near.empty() ? "" : in_quotes(near)));
    }
  if (!record["prompt"].is_string())
    throw DataError("prompt: expected a string, found " + kind_of(record["prompt"]));
  ChoiceRecord read{.prompt = record["prompt"].get<std::string>(),
                    .choices = choices_in(record["choices"])};
  read.answer = answer_in(record["answer"], read.choices);
  return read;
}

void read_choices(const std::filesystem::path& path,
                  const std::function<void(ChoiceRecord, const std::string&)>& take) {
  each_record<ChoiceRecord>(path, columns(), read_choices, take);
}

}  // namespace longshore::data
