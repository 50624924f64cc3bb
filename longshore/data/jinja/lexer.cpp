#include "longshore/data/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"
#include "longshore/data/jinja/characters.h"

namespace longshore::data::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_line_end(char c) { return c == '\n'; }

// With \n for all line breaks, and without one at the end.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    const bool is_pair = source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n';
    text += source[i] == '\r' ? '\n' : source[i];
    if (is_pair) ++i;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)), rest_(source_) {}

  std::vector<Token> run() {
    while (!rest_.empty()) lex_text();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { fail_at(line_, message); }

  void add(TokenKind kind, std::string text) {
    tokens_.push_back({kind, line_, std::move(text), int64_t{0}});
  }

  void skip(size_t bytes) {
    const std::string_view skipped = rest_.substr(0, bytes);
    line_ += static_cast<size_t>(std::ranges::count_if(skipped, is_line_end));
    if (!skipped.empty()) is_line_start_ = skipped.back() == '\n';
    rest_.remove_prefix(skipped.size());
  }

  void skip_space() { skip(bytes_at_head(rest_, is_space)); }

  // "{{", "{%" or "{#" and a sign for the white space before it.
  static bool begins_tag(std::string_view text) {
    return text.size() > 1 && text[0] == '{' &&
           (text[1] == '{' || text[1] == '%' || text[1] == '#');
  }

  // Text, and the tag behind it.
  void lex_text() {
    size_t size = 0;
    while (size < rest_.size() && !begins_tag(rest_.substr(size)))
      size = std::min(rest_.find('{', size + 1), rest_.size());
    const std::string_view text = rest_.substr(0, size), tag = rest_.substr(size);
    const char kind = tag.empty() ? '\0' : tag[1];
    const char sign = tag.size() > 2 && (tag[2] == '-' || tag[2] == '+') ? tag[2] : '\0';
    add_text(text, tag.empty() ? '+' : sign, kind != '{');
    skip(size);
    if (tag.empty()) return;
    const size_t raw = kind == '%' ? raw_tag(sign) : 0;
    skip(raw > 0 ? raw : sign ? 3 : 2);
    if (raw > 0) {
      if (rest_.data()[-3] == '-') skip_space();
      lex_raw();
    } else if (kind == '#') {
      lex_comment();
    } else {
      add(kind == '{' ? TokenKind::print_begin : TokenKind::block_begin, "");
      lex_tag(kind == '{');
    }
  }

  // Text before a tag with this sign. Before a block of `is_block` the white space goes that the
  // line begins with, where there is nothing else.
  void add_text(std::string_view text, char sign, bool is_block) {
    if (sign == '-') {
      text.remove_suffix(bytes_at_end(text, is_space));
    } else if (sign != '+' && is_block) {
      const size_t line = text.rfind('\n') + 1;  // 0 where there is none
      const bool is_at_line_start = line > 0 || is_line_start_;
      if (is_at_line_start && bytes_at_head(text.substr(line), is_space) == text.size() - line)
        text = text.substr(0, line);
    }
    if (!text.empty()) add(TokenKind::text, std::string(text));
  }

  // The bytes of {% NAME %} at the head of a text; 0 where it is another.
  static size_t named_tag(std::string_view text, std::string_view name, bool has_sign,
                          bool allows_plus) {
    size_t at = has_sign ? 3 : 2;
    at += bytes_at_head(text.substr(at), is_space);
    if (!text.substr(at).starts_with(name)) return 0;
    at += name.size();
    at += bytes_at_head(text.substr(at), is_space);
    const bool has_end_sign =
        at < text.size() && (text[at] == '-' || (allows_plus && text[at] == '+'));
    if (has_end_sign) ++at;
    return text.substr(at).starts_with("%}") ? at + 2 : 0;
  }

  size_t raw_tag(char sign) const { return named_tag(rest_, "raw", sign != 0, false); }

  void lex_raw() {
    for (size_t at = rest_.find("{%"); at != rest_.npos; at = rest_.find("{%", at + 2)) {
      const std::string_view tag = rest_.substr(at);
      const char sign = tag.size() > 2 && (tag[2] == '-' || tag[2] == '+') ? tag[2] : '\0';
      const size_t bytes = named_tag(tag, "endraw", sign != 0, true);
      if (bytes == 0) continue;
      add_text(rest_.substr(0, at), sign, true);
      const char end_sign = tag[bytes - 3];
      skip(at + bytes);
      end_block(end_sign);
      return;
    }
    fail("found no {% endraw %}, expected one for {% raw %}");
  }

  void lex_comment() {
    const size_t end = rest_.find("#}");
    if (end == rest_.npos) fail("found no #}, expected one for {#");
    const char sign = end > 0 ? rest_[end - 1] : '\0';
    skip(end + 2);
    end_block(sign);
  }

  // What goes behind a block: all white space with the sign -, and a line break without one.
  void end_block(char sign) {
    if (sign == '-')
      skip_space();
    else if (sign != '+' && rest_.starts_with('\n'))
      skip(1);
  }

  // The tokens up to the end of a tag.
  void lex_tag(bool is_print) {
    const std::string_view end = is_print ? "}}" : "%}";
    std::string open;  // the brackets that are open, by those that close them
    while (true) {
      skip_space();
      if (rest_.empty()) fail("found the end of the template, expected " + std::string(end));
      const bool has_sign = rest_[0] == '-' || (!is_print && rest_[0] == '+');
      if (open.empty() && rest_.substr(has_sign ? 1 : 0).starts_with(end)) {
        const char sign = has_sign ? rest_[0] : '\0';
        add(is_print ? TokenKind::print_end : TokenKind::block_end, "");
        skip(has_sign ? 3 : 2);
        if (!is_print)
          end_block(sign);
        else if (sign == '-')
          skip_space();
        return;
      }
      if (is_digit(rest_[0]))
        lex_number();
      else if (is_word(first_character(rest_).code_point))
        lex_name();
      else if (rest_[0] == '\'' || rest_[0] == '"')
        lex_string();
      else
        lex_operator(open);
    }
  }

  // How many bytes are digits from `at` on, with single underscores between them.
  size_t digits(size_t at, std::string_view allowed) const {
    auto is_one = [&](size_t i) {
      return i < rest_.size() && allowed.find(rest_[i]) != allowed.npos;
    };
    size_t end = at;
    while (is_one(end) || (end > at && end < rest_.size() && rest_[end] == '_' && is_one(end + 1)))
      ++end;
    return end - at;
  }

  void lex_number() {
    constexpr std::string_view kDecimal = "0123456789";
    const size_t whole = digits(0, kDecimal);
    size_t end = whole;
    const bool is_after_dot = !tokens_.empty() && tokens_.back().is_op(".") && is_behind_dot_;
    auto byte = [&](size_t at) { return at < rest_.size() ? rest_[at] : '\0'; };
    if (!is_after_dot) {
      if (byte(end) == '.' && is_digit(byte(end + 1))) end += 1 + digits(end + 1, kDecimal);
      if (byte(end) == 'e' || byte(end) == 'E') {
        const size_t sign = byte(end + 1) == '+' || byte(end + 1) == '-';
        if (const size_t exponent = digits(end + 1 + sign, kDecimal)) end += 1 + sign + exponent;
      }
    }
    if (end > whole) {
      std::string text(rest_.substr(0, end));
      std::erase(text, '_');
      add(TokenKind::number, text);
      tokens_.back().number = std::strtod(text.c_str(), nullptr);
      skip(end);
      return;
    }
    lex_integer();
  }

  void lex_integer() {
    int base = 10;
    size_t begin = 0, size = digits(0, "0123456789");
    const char mark = rest_.size() > 1 ? static_cast<char>(rest_[1] | 0x20) : '\0';
    constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
    for (const auto& [other_mark, other_base, count] :
         {std::tuple('x', 16, 22), std::tuple('o', 8, 8), std::tuple('b', 2, 2)}) {
      if (rest_[0] != '0' || mark != other_mark) continue;
      const size_t underscore = rest_.size() > 2 && rest_[2] == '_';
      const size_t own = digits(2 + underscore, kDigits.substr(0, static_cast<size_t>(count)));
      if (own == 0) continue;
      base = other_base;
      begin = 2 + underscore;
      size = own;
    }
    if (base == 10 && rest_[0] == '0') size = digits(0, "0");
    std::string text(rest_.substr(begin, size));
    std::erase(text, '_');
    int64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (result.ec != std::errc())
      fail("found the integer " + excerpt(text) + ", expected one of 64 bits");
    add(TokenKind::number, std::string(rest_.substr(0, begin + size)));
    tokens_.back().number = value;
    skip(begin + size);
  }

  void lex_name() {
    size_t size = 0;
    while (size < rest_.size()) {
      const Character character = first_character(rest_.substr(size));
      if (!is_word(character.code_point)) break;
      size += character.bytes;
    }
    add(TokenKind::name, std::string(rest_.substr(0, size)));
    skip(size);
  }

  void lex_string() {
    const char quote = rest_[0];
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size())
      fail("found a string without its end, expected " + std::string(1, quote));
    add(TokenKind::string, unescaped(rest_.substr(1, end - 1)));
    skip(end + 1);
  }

  // Python's escapes, but for \N{NAME}.
  std::string unescaped(std::string_view text) const {
    std::string result;
    while (!text.empty()) {
      const size_t plain = std::min(text.find('\\'), text.size());
      result += text.substr(0, plain);
      text.remove_prefix(plain);
      if (text.empty()) break;
      const char c = text[1];
      text.remove_prefix(2);
      constexpr std::string_view kEscapes = "abfnrtv\\'\"", kMeant = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t place = kEscapes.find(c); place != kEscapes.npos) {
        result += kMeant[place];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t size = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        append(result, coded(text.substr(0, size), size, 16));
        text.remove_prefix(size);
      } else if (c >= '0' && c <= '7') {
        std::string octal(1, c);
        while (octal.size() < 3 && !text.empty() && text[0] >= '0' && text[0] <= '7') {
          octal += text[0];
          text.remove_prefix(1);
        }
        append(result, coded(octal, octal.size(), 8));
      } else if (c == 'N' || static_cast<unsigned char>(c) >= 0x80) {
        fail("found the escape \\" +
             std::string(c == 'N' ? "N"
                                  : "before a character that is not "
                                    "ASCII") +
             ", which is not supported; expected another");
      } else if (c != '\n') {  // which goes
        result += {'\\', c};
      }
    }
    return result;
  }

  uint32_t coded(std::string_view digits, size_t size, int base) const {
    uint32_t code = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    const bool is_character = code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
    if (digits.size() != size || error != std::errc() || end != digits.data() + size ||
        !is_character)
      fail("found the escape of " + in_quotes(digits) + " in a string, expected the code of a " +
           "character");
    return code;
  }

  static void append(std::string& text, uint32_t code) {
    append_character(text, static_cast<char32_t>(code));
  }

  void lex_operator(std::string& open) {
    static constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* found = std::ranges::find_if(
        kOperators, [&](std::string_view symbol) { return rest_.starts_with(symbol); });
    if (found == kOperators.end()) {
      const size_t bytes = first_character(rest_).bytes;
      fail("found " + in_quotes(rest_.substr(0, bytes)) + ", expected an expression's token");
    }
    constexpr std::string_view kOpening = "([{", kClosing = ")]}";
    if (const size_t place = kOpening.find(*found); place != kOpening.npos) {
      open += kClosing[place];
    } else if (kClosing.find(*found) != kClosing.npos) {
      if (open.empty() || open.back() != (*found)[0])
        fail("found " + std::string(*found) + ", expected " +
             (open.empty() ? "no closing bracket" : std::string(1, open.back())));
      open.pop_back();
    }
    add(TokenKind::op, std::string(*found));
    skip(found->size());
    is_behind_dot_ = *found == "." && !rest_.empty() && is_digit(rest_[0]);
  }

  std::string source_;
  std::string_view rest_;
  size_t line_ = 1;
  bool is_line_start_ = true;
  bool is_behind_dot_ = false;  // whether a digit stands right behind the last operator, a dot
  std::vector<Token> tokens_;
};

}  // namespace

std::string shown(const Token& token) {
  switch (token.kind) {
    case TokenKind::text:
      return "text";
    case TokenKind::print_begin:
      return "{{";
    case TokenKind::print_end:
      return "}}";
    case TokenKind::block_begin:
      return "{%";
    case TokenKind::block_end:
      return "%}";
    case TokenKind::end:
      return "the end of the template";
    case TokenKind::string:
      return "the string " + in_quotes(token.text);
    default:
      return excerpt(token.text);
  }
}

std::vector<Token> tokens(std::string_view source) { return Lexer(source).run(); }

void fail_at(size_t line, const std::string& message) {
  throw DataError("line " + std::to_string(line) + ": " + message);
}

}  // namespace longshore::data::jinja
