// require_distinct() refuses a list in which a word stands twice.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"

namespace longshore {

// Throws ConfigError, which names the option that gave them, where a word stands there twice.
inline void require_distinct(std::vector<std::string> words, const std::string& option) {
  std::ranges::sort(words);
  if (auto twice = std::ranges::adjacent_find(words); twice != words.end())
    throw ConfigError(option + ": found " + excerpt(*twice) + " twice, expected each once");
}

}  // namespace longshore
