// Spelling help for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longshore {

// The first candidate that `word` begins, else the one with the least edit distance to it (optimal
// string alignment: insert, delete, replace, swap of neighbours), else, where all differ by more
// than half of the word's length, the first that `word` abbreviates: it has all its letters, in
// their order, and begins with the same. "" if none. A word of one
// letter begins nothing. "" too where the candidates are so many that the search would take long.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// "a, b, c": candidates as an error message lists them.
std::string join(std::span<const std::string> words, std::string_view separator = ", ");

// The parts of "a,b,c"; of "" none.
std::vector<std::string> split(std::string_view list);

}  // namespace longshore
