// The tokens of a template: text, and what stands in {{ }} and {% %}.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace longshore::data::jinja {

enum class TokenKind {
  text,  // of the template's output, white space around blocks removed as it says
  print_begin,
  print_end,
  block_begin,
  block_end,
  name,
  op,
  string,
  number,
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  size_t line = 1;
  std::string text;  // of a string without quotes and escapes
  std::variant<int64_t, double> number = int64_t{0};

  bool is(TokenKind other, std::string_view words) const { return kind == other && text == words; }
  bool is_op(std::string_view symbol) const { return is(TokenKind::op, symbol); }
  bool is_name(std::string_view word) const { return is(TokenKind::name, word); }
};

// As messages show a token: "end of the template", "\"foo\"".
std::string shown(const Token& token);

// The last token is the end. With what transformers sets: trim_blocks, lstrip_blocks, and without
// one line break at the end of the source. Throws a DataError with the line.
std::vector<Token> tokens(std::string_view source);

// "line 12: ...", as a DataError.
[[noreturn]] void fail_at(size_t line, const std::string& message);

}  // namespace longshore::data::jinja
