// tokenize_json_lines() runs the tokenizer as a filter for other programs.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {

// For each line in, a JSON string, calls `answer` with a line {"ids":[...],"decoded":"..."}: its
// ids without bos and eos, and what they decode to, special tokens kept. The JSON written is ASCII.
// A line that is no JSON string, or cannot be read, is a DataError with its number.
void tokenize_json_lines(const Tokenizer& tokenizer, std::istream& in,
                         const std::function<void(const std::string& line)>& answer);

}  // namespace longshore::data
