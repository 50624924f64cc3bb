// The regular expressions by which a tokenizer.json cuts text into pieces. PCRE2 matches them with
// its JIT compiler, but sees of a text only which of the expression's sets each character is in: so
// what it knows of Unicode itself does not matter.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/tokenizers/split_behavior.h"
#include "longshore/data/tokenizers/split_pattern_syntax.h"

namespace longshore::data {

// Immutable: any number of threads may use it at a time.
class SplitPattern {
 public:
  // Takes of Oniguruma's syntax what means the same to PCRE2 and needs no search that grows
  // exponentially: literals, character classes, \r \n \t \f, \s \S, \d \D, general categories and
  // scripts as \p{..}, groups, look-ahead, (?i:..) around ASCII, alternatives, greedy, lazy and
  // possessive repeats; a group may be made optional, not repeated. Throws a DataError on anything
  // else, and on a pattern that matches the empty string.
  explicit SplitPattern(std::string_view pattern);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;

  // Appends to `parts` the matches in `text`, which is valid UTF-8, and what lies between them.
  // Throws a DataError when that takes more work than any sensible pattern does, in this text or in
  // all those before together.
  void split(std::string_view text, std::vector<SplitPart>& parts) const;

 private:
  struct Compiled;

  std::optional<std::string> learn_symbols(const SplitSyntax& syntax);
  std::string symbols_of(std::string_view text) const;

  // Characters that are in the same sets have the same symbol, a byte. In pages of 256.
  std::vector<uint16_t> page_of_;
  std::vector<std::array<char, 256>> pages_;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace longshore::data
