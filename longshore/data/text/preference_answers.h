// PreferenceAnswers are a prompt and the better and the worse answer to it, as records have them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace longshore::data {

// All of them are strings, or all are lists of messages.
struct PreferenceAnswers {
  nlohmann::ordered_json prompt, chosen, rejected;
};

struct PreferenceNames {
  std::string prompt, chosen, rejected;
};

// Of what the columns chosen and rejected hold, and what a prompt's does, or null without one.
//
// Answers are strings or lists of messages; an answer that is a string is the assistant's message
// where the prompt is a list, and a prompt that is a string is the user's where answers are lists.
// Lists may be whole conversations, which begin with the prompt: with its messages, or, of a prompt
// that is a string, with others than the assistant's; then what both begin with is the prompt, and
// a string must stand in it.
//
// Without a prompt it is what both begin with, as TRL's extract_prompt has it: of lists as many
// messages as are equal; of strings as many characters, without a space before the first that
// differs. Where one is all that the other begins with, its last message or character is an answer
// all the same.
//
// Throws a DataError, without file and line, on anything else, and on an empty answer. `names` are
// those of the columns.
PreferenceAnswers read_preference(PreferenceAnswers columns, const PreferenceNames& names);

// Whether an answer is a good one: true or false, 1 or 0, or as tables of text write these. Throws
// a DataError, which begins with `name`, on anything else.
bool read_label(const nlohmann::ordered_json& value, const std::string& name);

}  // namespace longshore::data
