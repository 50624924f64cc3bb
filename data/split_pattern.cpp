#include "data/split_pattern.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "data/pcre2.h"

namespace longshore::data {
namespace {

constexpr size_t kMaxPatternBytes = 16384;
constexpr int kMaxNesting = 16;

// Per match, in PCRE2's count of steps back.
constexpr uint32_t kMatchLimit = 20'000'000;
// Sensible patterns split some 10 MB a second. By so much the time of all texts may exceed that of
// a hundredth of this rate; what a busy machine takes from one text the next ones make up for.
constexpr std::chrono::seconds kMaxTime{60};
constexpr std::chrono::microseconds kTimeOfByte{10};
constexpr int kMatchesBetweenLooks = 1024;

// What \s is to Oniguruma: White_Space. PCRE2 counts U+180E too.
constexpr std::string_view kSpaces =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads a pattern in Oniguruma's syntax and writes it in PCRE2's.
class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern), rest_(pattern) {
    if (pattern.size() > kMaxPatternBytes) refuse("at most 16384 bytes");
    read_alternatives();
    if (!rest_.empty()) refuse("no \")\" without its \"(\"");
  }

  const std::string& text() const { return out_; }

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

  void copy(size_t bytes) {
    out_ += rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
  }

  void read_alternatives() {
    if (++nesting_ > kMaxNesting) refuse("groups nested less deeply");
    while (true) {
      while (!rest_.empty() && !next_is_one_of("|)")) read_repeated();
      if (!take("|")) break;
      out_ += '|';
    }
    --nesting_;
  }

  void read_repeated() {
    if (rest_.front() == '(') {
      read_group();
      return;
    }
    if (rest_.front() == '[')
      read_class();
    else if (rest_.front() == '\\')
      read_escape(Within::nothing);
    else
      read_literal();
    read_repeat();
  }

  void read_group() {
    for (std::string_view head : {"(?:", "(?=", "(?!", "(?i:"}) {
      if (!take(head)) continue;
      out_ += head;
      if (head == "(?i:")
        read_caseless();
      else
        read_alternatives();
      close_group(head[2] == ':' || head[2] == 'i');
      return;
    }
    if (rest_.starts_with("(?")) refuse("a group of the kinds (?:, (?i:, (?= or (?!");
    take("(");
    out_ += "(?:";
    read_alternatives();
    close_group(true);
  }

  void close_group(bool may_be_optional) {
    if (!take(")")) refuse("\")\"");
    out_ += ')';
    if (may_be_optional && take("?")) {
      out_ += '?';
      if (next_is_one_of("?+")) copy(1);
    }
    if (next_is_one_of("*+?{")) refuse("no repeat of a group beside \"?\"");
  }

  // Letters that stand for more than themselves in either library are left out.
  void read_caseless() {
    std::string letters;
    while (!rest_.empty() && rest_.front() != ')') {
      const char c = rest_.front();
      if (!is_letter(c) && !is_digit(c) && std::string_view("'| []").find(c) == rest_.npos)
        refuse("letters, digits, ', | and [] within (?i:");
      const bool after_letters = !letters.empty() && is_letter(letters.back());
      const bool after_class = !letters.empty() && letters.back() == '[';
      if (after_class && (c == '[' || is_letter(c))) refuse("no letter beside a class within (?i:");
      if (c == '[') {
        const size_t end = rest_.find(']');
        if (after_letters || end == std::string_view::npos || end == 1 ||
            !std::all_of(rest_.begin() + 1, rest_.begin() + static_cast<ptrdiff_t>(end), is_letter))
          refuse("a class of letters, beside no other letter, within (?i:");
        copy(end);
      }
      letters += static_cast<char>(is_letter(c) ? c | 0x20 : c);
      copy(1);
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
      out_ += '{';
      const size_t digits = read_number();
      if (digits == 0) refuse("a number after \"{\"");
      if (take(",")) {
        out_ += ',';
        read_number();
      }
      if (!take("}")) refuse("\"}\"");
      out_ += '}';
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
  bool read_escape(Within within) {
    take("\\");
    if (rest_.empty()) refuse("a character after \"\\\"");
    const char c = rest_.front();
    const bool in_class = within == Within::a_class;
    if (c == 's' || (c == 'S' && !in_class)) {
      if (!in_class) out_ += c == 's' ? "[" : "[^";
      out_ += kSpaces;
      if (!in_class) out_ += ']';
      rest_.remove_prefix(1);
      return false;
    }
    if (c == 'p' || c == 'P') {
      out_ += '\\';
      read_property();
      return false;
    }
    const bool known_letter = std::string_view("rntfdD").find(c) != std::string_view::npos;
    const bool punctuation = c > ' ' && c < 0x7f && !is_letter(c) && !is_digit(c);
    if (!known_letter && !punctuation)
      refuse("one of \\r \\n \\t \\f \\s \\S \\d \\D \\p{..} \\P{..} or escaped punctuation");
    out_ += '\\';
    copy(1);
    return c != 'd' && c != 'D';
  }

  void read_property() {
    static constexpr auto kCategories = std::to_array<std::string_view>(
        {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd",
         "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm",
         "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co"});
    static constexpr auto kScripts = std::to_array<std::string_view>(
        {"Arabic",  "Armenian", "Bengali",  "Cyrillic", "Devanagari", "Ethiopic",  "Georgian",
         "Greek",   "Gujarati", "Gurmukhi", "Han",      "Hangul",     "Hebrew",    "Hiragana",
         "Kannada", "Katakana", "Khmer",    "Lao",      "Latin",      "Malayalam", "Mongolian",
         "Myanmar", "Sinhala",  "Tamil",    "Telugu",   "Thai",       "Tibetan"});
    copy(1);
    const size_t end = rest_.find('}');
    if (!rest_.starts_with('{') || end == std::string_view::npos)
      refuse("a property's name in braces");
    const std::string_view name = rest_.substr(1, end - 1);
    const bool is_script = std::ranges::find(kScripts, name) != kScripts.end();
    if (!is_script && std::ranges::find(kCategories, name) == kCategories.end())
      refuse("a general category such as L, Lu or Nd, or a common script");
    // A script's name alone means Script_Extensions to PCRE2, and Script to Oniguruma.
    out_ += is_script ? "{sc:" : "{";
    out_ += name;
    out_ += '}';
    rest_.remove_prefix(end + 1);
  }

  void read_class() {
    copy(1);
    if (take("^")) out_ += '^';
    if (next_is_one_of("]")) refuse("a class that is not empty");
    while (!rest_.empty() && rest_.front() != ']') {
      if (next_is_one_of("[")) refuse("no \"[\" within a class");
      if (rest_.starts_with("&&") || rest_.starts_with("--") || rest_.starts_with("~~"))
        refuse("no set operations within a class");
      const bool single = read_class_member();
      if (single && rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
        copy(1);
        if (next_is_one_of("[") || !read_class_member()) refuse("a character that ends the range");
      } else if (!single && rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
        refuse("a character before \"-\"");
      }
    }
    if (!take("]")) refuse("\"]\"");
    out_ += ']';
  }

  bool read_class_member() {
    if (rest_.front() == '\\') return read_escape(Within::a_class);
    copy(first_character(rest_).bytes);
    return true;
  }

  void read_literal() {
    if (next_is_one_of("*+?{}].^$")) refuse("a literal; * + ? { } ] . ^ $ are none");
    // Outside of classes PCRE2 gives these no meaning of their own.
    copy(first_character(rest_).bytes);
  }

  std::string_view pattern_, rest_;
  std::string out_;
  int nesting_ = 0;
};

}  // namespace

struct SplitPattern::Compiled {
  Pcre2Code code;
  Pcre2MatchContext limits;
  std::atomic<int64_t> excess_ns = 0;  // over kTimeOfByte
};

SplitPattern::SplitPattern(std::string_view pattern) : compiled_(std::make_unique<Compiled>()) {
  if (valid_utf8_prefix(pattern) != pattern.size())
    throw DataError("regular expression " + in_quotes(pattern) + ": expected UTF-8");
  const std::string translated = Translation(pattern).text();
  int error = 0;
  size_t at = 0;
  // Anchored: a search for the next match would try again at each character, uncounted.
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()),
                                      translated.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED,
                                      &error, &at, nullptr));
  if (!compiled_->code)
    throw DataError("regular expression " + in_quotes(pattern) + ": " + pcre2_message(error));
  uint32_t matches_empty = 0;
  pcre2_pattern_info(compiled_->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty)
    throw DataError("regular expression " + in_quotes(pattern) +
                    ": expected one that matches no empty string");
  // Where the JIT cannot run, PCRE2 interprets.
  pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);
  compiled_->limits.reset(pcre2_match_context_create(nullptr));
  if (!compiled_->limits) throw std::bad_alloc();
  pcre2_set_match_limit(compiled_->limits.get(), kMatchLimit);
}

SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;

void SplitPattern::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  const Pcre2MatchData match(pcre2_match_data_create(1, nullptr));
  if (!match) throw std::bad_alloc();
  const size_t* const offsets = pcre2_get_ovector_pointer(match.get());
  const auto start = std::chrono::steady_clock::now();
  // With what of this text has been split so far.
  auto excess_with = [&](size_t bytes) {
    const std::chrono::nanoseconds excess =
        std::chrono::nanoseconds(compiled_->excess_ns.load(std::memory_order_relaxed)) +
        (std::chrono::steady_clock::now() - start) - kTimeOfByte * static_cast<int64_t>(bytes);
    if (excess > kMaxTime)
      throw DataError("the tokenizer's regular expression takes too long to split the text");
    return std::max<int64_t>(0, excess.count());
  };
  int matches_until_look = kMatchesBetweenLooks;
  size_t unmatched = 0;  // where what did not match begins
  for (size_t at = 0; at < text.size();) {
    const int result =
        pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    at, PCRE2_NO_UTF_CHECK, match.get(), compiled_->limits.get());
    if (result == PCRE2_ERROR_NOMATCH) {
      at += first_character(text.substr(at)).bytes;
    } else if (result < 0) {
      throw DataError("cannot split the text by the tokenizer's regular expression: " +
                      pcre2_message(result));
    } else {
      if (unmatched < at) pieces.push_back(text.substr(unmatched, at - unmatched));
      pieces.push_back(text.substr(at, offsets[1] - at));
      unmatched = at = offsets[1];
    }
    if (--matches_until_look == 0) {
      matches_until_look = kMatchesBetweenLooks;
      excess_with(at);
    }
  }
  // Mostly 0 before and after: threads would wait for each other's writes.
  const int64_t excess = excess_with(text.size());
  if (excess != compiled_->excess_ns.load(std::memory_order_relaxed))
    compiled_->excess_ns.store(excess, std::memory_order_relaxed);
  if (unmatched < text.size()) pieces.push_back(text.substr(unmatched));
}

}  // namespace longshore::data
