// A ChoiceRecord is a question of multiple choice: a prompt, what may follow it, and which of that
// is right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::data {

inline constexpr size_t kMostChoices = 64;

struct ChoiceRecord {
  std::string prompt;
  std::vector<std::string> choices;  // each follows the prompt as it is
  size_t answer = 0;                 // the number of one of them, from 0
};

// Reads one record by its columns: `prompt`, a string; `choices`, a list of two or more strings;
// `answer`, the number of one of them, from 0, or its text, with or without the white space that it
// begins with. Others are ignored. Throws a DataError, without file and line, on what is no JSON or
// none of this, and on a choice of white space alone.
ChoiceRecord read_choices(std::string_view record);

// The records of a file (has_records()), one after the other. `place` is where one stands, for
// messages: "a.jsonl:3". Throws a DataError with file and line.
void read_choices(const std::filesystem::path& path,
                  const std::function<void(ChoiceRecord record, const std::string& place)>& take);

}  // namespace longshore::data
