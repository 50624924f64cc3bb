#include "longshore/data/tokenizers/split_pattern_syntax.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/unicode_sets.h"
#include "longshore/data/tokenizers/white_space.h"

namespace longshore::data {
namespace {

constexpr size_t kMaxPatternBytes = 16384;
constexpr int kMaxNesting = 16;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append(std::vector<CharacterRange>& to, std::span<const CharacterRange> ranges) {
  to.insert(to.end(), ranges.begin(), ranges.end());
}

// A letter of ASCII in both cases; U+017F and U+212A are cases of s and k.
void append_cases(std::vector<CharacterRange>& to, char letter) {
  for (const char32_t c : {letter & ~0x20, letter | 0x20}) to.push_back({c, c});
  if ((letter | 0x20) == 's') to.push_back({0x17f, 0x17f});
  if ((letter | 0x20) == 'k') to.push_back({0x212a, 0x212a});
}

// A general category, of one letter or two, or a script.
std::optional<CharacterSet> property(std::string_view name) {
  std::vector<CharacterRange> ranges;
  for (const UnicodeSet& each : unicode_categories())
    if (each.name == name || (name.size() == 1 && name != "C" && each.name.starts_with(name)))
      append(ranges, each.characters);
  for (const UnicodeSet& each : unicode_scripts())
    if (each.name == name) append(ranges, each.characters);
  if (ranges.empty()) return std::nullopt;
  return character_set(std::move(ranges));
}

class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) : pattern_(pattern), rest_(pattern) {
    if (pattern.size() > kMaxPatternBytes) refuse("at most 16384 bytes");
    read_alternatives();
    if (!rest_.empty()) refuse("no \")\" without its \"(\"");
    syntax_.parts.push_back({std::exchange(text_, {})});
  }

  SplitSyntax take() { return std::move(syntax_); }

 private:
  [[noreturn]] void refuse(const std::string& expected) const {
    throw DataError("regular expression " + in_quotes(pattern_) + ", byte " +
                    std::to_string(pattern_.size() - rest_.size()) + ": expected " + expected);
  }

  bool take(std::string_view head) {
    if (!rest_.starts_with(head)) return false;
    rest_.remove_prefix(head.size());
    return true;
  }

  // Also says no at the end.
  bool next_is_one_of(std::string_view set) const {
    return !rest_.empty() && set.find(rest_.front()) != std::string_view::npos;
  }

  char32_t take_character() {
    const Character character = first_character(rest_);
    rest_.remove_prefix(character.bytes);
    return character.code_point;
  }

  void copy(size_t bytes) {
    text_ += rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
  }

  void write(CharacterSet set) {
    if (set.empty()) refuse("a class that has a character");
    const auto [known, is_new] = set_ids_.emplace(set, static_cast<int>(syntax_.sets.size()));
    if (is_new) syntax_.sets.push_back(std::move(set));
    syntax_.parts.push_back({std::exchange(text_, {}), known->second});
  }

  void read_alternatives() {
    if (++nesting_ > kMaxNesting) refuse("groups nested less deeply");
    while (true) {
      while (!rest_.empty() && !next_is_one_of("|)")) read_repeated();
      if (!take("|")) break;
      text_ += '|';
    }
    --nesting_;
  }

  void read_repeated() {
    if (rest_.front() == '(') {
      read_group();
      return;
    }
    if (rest_.front() == '[') {
      read_class();
    } else {
      std::vector<CharacterRange> ranges;
      if (rest_.front() == '\\')
        read_escape(Within::nothing, ranges);
      else
        read_literal(ranges);
      write(character_set(std::move(ranges)));
    }
    read_repeat();
  }

  void read_group() {
    for (std::string_view head : {"(?:", "(?=", "(?!", "(?i:"}) {
      if (!take(head)) continue;
      const bool caseless = head == "(?i:";
      text_ += caseless ? "(?:" : head;
      if (caseless)
        read_caseless();
      else
        read_alternatives();
      close_group(head[2] == ':' || caseless);
      return;
    }
    if (rest_.starts_with("(?")) refuse("a group of the kinds (?:, (?i:, (?= or (?!");
    take("(");
    text_ += "(?:";
    read_alternatives();
    close_group(true);
  }

  void close_group(bool may_be_optional) {
    if (!take(")")) refuse("\")\"");
    text_ += ')';
    if (may_be_optional && take("?")) {
      text_ += '?';
      if (next_is_one_of("?+")) copy(1);
    }
    if (next_is_one_of("*+?{")) refuse("no repeat of a group beside \"?\"");
  }

  // To Oniguruma some pairs of letters are the cases of one character, so pairs that are, or might
  // be, are left out.
  void read_caseless() {
    std::string letters;
    while (!rest_.empty() && rest_.front() != ')') {
      const char c = rest_.front();
      if (!is_letter(c) && !is_digit(c) && std::string_view("'| []").find(c) == rest_.npos)
        refuse("letters, digits, ', | and [] within (?i:");
      const bool after_letters = !letters.empty() && is_letter(letters.back());
      const bool after_class = !letters.empty() && letters.back() == ']';
      if (after_class && (c == '[' || is_letter(c))) refuse("no letter beside a class within (?i:");
      std::vector<CharacterRange> ranges;
      if (c == '[') {
        const size_t end = rest_.find(']');
        if (after_letters || end == std::string_view::npos || end == 1 ||
            !std::all_of(rest_.begin() + 1, rest_.begin() + static_cast<ptrdiff_t>(end), is_letter))
          refuse("a class of letters, beside no other letter, within (?i:");
        for (char letter : rest_.substr(1, end - 1)) append_cases(ranges, letter);
        rest_.remove_prefix(end);
      } else if (is_letter(c)) {
        append_cases(ranges, c);
      } else if (c == ']') {
        refuse("no \"]\" without its \"[\" within (?i:");
      } else if (c == '|') {
        text_ += c;
      } else {
        ranges.push_back({static_cast<char32_t>(c), static_cast<char32_t>(c)});
      }
      letters += static_cast<char>(c == '[' ? ']' : is_letter(c) ? c | 0x20 : c);
      rest_.remove_prefix(1);
      if (!ranges.empty()) write(character_set(std::move(ranges)));
    }
    // Pairs that a single character, such as a ligature, folds to.
    for (std::string_view pair : {"ss", "ff", "fi", "fl", "st"})
      if (letters.find(pair) != std::string::npos)
        refuse("no \"" + std::string(pair) + "\" within (?i:");
  }

  void read_repeat() {
    if (next_is_one_of("*+?")) {
      copy(1);
      if (next_is_one_of("?+")) copy(1);  // lazy, possessive
    } else if (take("{")) {
      text_ += '{';
      const size_t digits = read_number();
      if (digits == 0) refuse("a number after \"{\"");
      if (take(",")) {
        text_ += ',';
        read_number();
      }
      if (!take("}")) refuse("\"}\"");
      text_ += '}';
    }
    // The libraries read {1,2}+ and {1,2}? differently.
    if (next_is_one_of("*+?{")) refuse("no repeat of a repeat");
  }

  size_t read_number() {
    size_t digits = 0;
    while (digits < rest_.size() && is_digit(rest_[digits])) ++digits;
    if (digits > 4) refuse("a count of at most 4 digits");
    copy(digits);
    return digits;
  }

  enum class Within { nothing, a_class };

  // Returns whether it is a single character, which may begin or end a range.
  bool read_escape(Within within, std::vector<CharacterRange>& ranges) {
    take("\\");
    if (rest_.empty()) refuse("a character after \"\\\"");
    const char c = rest_.front();
    if (c == 's' || (c == 'S' && within == Within::nothing)) {
      append(ranges, c == 's' ? character_set({white_space().begin(), white_space().end()})
                              : complement(white_space()));
      rest_.remove_prefix(1);
      return false;
    }
    if (c == 'd' || c == 'D') {
      const CharacterSet digits = *property("Nd");
      append(ranges, c == 'd' ? digits : complement(digits));
      rest_.remove_prefix(1);
      return false;
    }
    if (c == 'p' || c == 'P') {
      append(ranges, read_property());
      return false;
    }
    constexpr std::string_view kLetters = "rntf", kMeanings = "\r\n\t\f";
    const size_t letter = kLetters.find(c);
    const bool punctuation = c > ' ' && c < 0x7f && !is_letter(c) && !is_digit(c);
    if (letter == kLetters.npos && !punctuation)
      refuse("one of \\r \\n \\t \\f \\s \\S \\d \\D \\p{..} \\P{..} or escaped punctuation");
    const auto meant = static_cast<char32_t>(punctuation ? c : kMeanings[letter]);
    ranges.push_back({meant, meant});
    rest_.remove_prefix(1);
    return true;
  }

  CharacterSet read_property() {
    const bool negated = rest_.front() == 'P';
    rest_.remove_prefix(1);
    const size_t end = rest_.find('}');
    if (!rest_.starts_with('{') || end == std::string_view::npos)
      refuse("a property's name in braces");
    std::optional<CharacterSet> set = property(rest_.substr(1, end - 1));
    if (!set) refuse("a general category such as L, Lu or Nd, or a common script");
    rest_.remove_prefix(end + 1);
    return negated ? complement(*set) : *std::move(set);
  }

  void read_class() {
    take("[");
    const bool negated = take("^");
    if (next_is_one_of("]")) refuse("a class that is not empty");
    std::vector<CharacterRange> ranges;
    while (!rest_.empty() && rest_.front() != ']') {
      if (next_is_one_of("[")) refuse("no \"[\" within a class");
      if (rest_.starts_with("&&") || rest_.starts_with("--") || rest_.starts_with("~~"))
        refuse("no set operations within a class");
      const bool single = read_class_member(ranges);
      const bool is_range = rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']';
      if (is_range && !single) refuse("a character before \"-\"");
      if (is_range) {
        take("-");
        std::vector<CharacterRange> last;
        if (next_is_one_of("[") || !read_class_member(last))
          refuse("a character that ends the range");
        if (last[0].first < ranges.back().first) refuse("a range that ends behind its beginning");
        ranges.back().last = last[0].first;
      }
    }
    if (!take("]")) refuse("\"]\"");
    CharacterSet set = character_set(std::move(ranges));
    write(negated ? complement(set) : std::move(set));
  }

  bool read_class_member(std::vector<CharacterRange>& ranges) {
    if (rest_.front() == '\\') return read_escape(Within::a_class, ranges);
    const char32_t character = take_character();
    ranges.push_back({character, character});
    return true;
  }

  void read_literal(std::vector<CharacterRange>& ranges) {
    if (next_is_one_of("*+?{}].^$")) refuse("a literal; * + ? { } ] . ^ $ are none");
    const char32_t character = take_character();
    ranges.push_back({character, character});
  }

  std::string_view pattern_, rest_;
  std::string text_;  // of the next part
  SplitSyntax syntax_;
  std::map<CharacterSet, int> set_ids_;
  int nesting_ = 0;
};

}  // namespace

SplitSyntax read_split_pattern(std::string_view pattern) {
  if (valid_utf8_prefix(pattern) != pattern.size())
    throw DataError("regular expression " + in_quotes(pattern) + ": expected UTF-8");
  return PatternReader(pattern).take();
}

}  // namespace longshore::data
