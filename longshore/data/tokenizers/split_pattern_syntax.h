// Reads the regular expression of a tokenizer.json, written for Oniguruma (Ruby's syntax, UTF-8),
// and resolves what it says of characters to sets of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/tokenizers/character_set.h"

namespace longshore::data {

struct SplitSyntax {
  // One part after the other: text that means the same to PCRE2, and then, but at the end, one
  // character of a set.
  struct Part {
    std::string text;
    int set = -1;  // -1 at the end
  };
  std::vector<Part> parts;
  std::vector<CharacterSet> sets;  // none twice, none empty
};

// Throws a DataError that gives the pattern and the byte, on what SplitPattern does not take.
SplitSyntax read_split_pattern(std::string_view pattern);

}  // namespace longshore::data
