// A regular expression (PCRE2) out of a config or a file, for names of about fifty characters.
#pragma once

#include <string>

#include "longshore/data/tokenizers/pcre2.h"

namespace longshore::data {

class Pcre2Expression {
 public:
  // Throws a DataError, which does not name the expression, where it is none.
  explicit Pcre2Expression(const std::string& text);

  // Throws a DataError where that takes too long: it backtracks exponentially.
  bool is_found_in(const std::string& name) const;

 private:
  Pcre2Code code_;
  Pcre2MatchContext context_;
  Pcre2MatchData result_;
};

}  // namespace longshore::data
