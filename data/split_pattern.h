// The regular expressions by which a tokenizer.json cuts text into pieces. They are written for
// Oniguruma (Ruby's syntax, UTF-8) and matched by PCRE2 with its JIT compiler. The two agree but on
// characters that only the newer of their Unicode versions knows.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

namespace longshore::data {

// Immutable: any number of threads may use it at a time.
class SplitPattern {
 public:
  // Takes what means the same to both libraries and needs no search that grows exponentially:
  // literals, character classes, \r \n \t \f, \s \S, \d \D, general categories and scripts as
  // \p{..}, groups, look-ahead, (?i:..) around ASCII, alternatives, greedy, lazy and possessive
  // repeats; a group may be made optional, not repeated. Throws a DataError on anything else, and
  // on a pattern that matches the empty string.
  explicit SplitPattern(std::string_view pattern);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;

  // Appends to `pieces` the matches in `text`, which is valid UTF-8, and what lies between them.
  // Throws a DataError when that takes more work than any sensible pattern does, in this text or in
  // all those before together.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace longshore::data
