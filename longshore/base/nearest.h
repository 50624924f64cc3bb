// nearest() finds the choice that a misspelled word was probably meant to be, for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace longshore {

// The candidate that `word` was probably meant to be. The first of these rules that finds one
// decides; where several candidates satisfy it equally well, the first of them is returned. Small
// and capital letters count as the same.
// 1. `word` has at least two letters, and the candidate begins with it.
// 2. The candidate has the smallest edit distance to `word`, and that is at most half of the word's
//    length, or 1 for a shorter word. The distance is optimal string alignment: it counts
//    insertions, deletions, replacements, and swaps of neighbours. A word of three letters or less
//    has the candidate's first letter: tpu is no misspelt cpu.
// 3. `word` abbreviates the candidate: it has at least three letters, both begin with the same one,
//    and the candidate contains all letters of `word` in their order.
// Returns "" where no rule finds one, and where the candidates are so many that a search would take
// too long for an error message.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// The end of a message: "; nearest: CHOICE", printable, or "" where there is no choice to name.
std::string nearest_help(const std::string& choice);

}  // namespace longshore
