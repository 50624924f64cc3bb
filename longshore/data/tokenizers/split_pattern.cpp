#include "longshore/data/tokenizers/split_pattern.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/pcre2.h"

namespace longshore::data {
namespace {

// Per match, in PCRE2's count of steps back.
constexpr uint32_t kMatchLimit = 20'000'000;
// Sensible patterns split some 10 MB a second. By so much the time of all texts may exceed that of
// a hundredth of this rate; what a busy machine takes from one text the next ones make up for.
constexpr std::chrono::seconds kMaxTime{60};
constexpr std::chrono::microseconds kTimeOfCharacter{10};
constexpr int kMatchesBetweenLooks = 1024;

constexpr size_t kMaxSymbols = 256;
constexpr char32_t kEndOfCharacters = 0x110000;

// As PCRE2 reads it within a class.
std::string hexadecimal(size_t symbol) {
  constexpr const char* kDigits = "0123456789abcdef";
  return std::string("\\x") + kDigits[symbol >> 4] + kDigits[symbol & 15];
}

// Length in bytes of the first `count` characters.
size_t bytes_of_characters(std::string_view text, size_t count) {
  size_t bytes = 0;
  while (count-- > 0) bytes += first_character(text.substr(bytes)).bytes;
  return bytes;
}

}  // namespace

struct SplitPattern::Compiled {
  Pcre2Code code;
  Pcre2MatchContext limits;
  std::atomic<int64_t> excess_ns = 0;  // over kTimeOfCharacter
};

SplitPattern::SplitPattern(std::string_view pattern) : compiled_(std::make_unique<Compiled>()) {
  auto refuse = [&](const std::string& fault) {
    throw DataError("regular expression " + in_quotes(pattern) + ": " + fault);
  };
  const std::optional<std::string> symbols = learn_symbols(read_split_pattern(pattern));
  if (!symbols)
    refuse("expected one that tells at most " + std::to_string(kMaxSymbols) +
           " kinds of characters apart, found more");
  int error = 0;
  size_t at = 0;
  // Anchored: a search for the next match would try again at each character, uncounted.
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(symbols->data()),
                                      symbols->size(), PCRE2_ANCHORED, &error, &at, nullptr));
  if (!compiled_->code) refuse(pcre2_message(error));
  uint32_t matches_empty = 0;
  pcre2_pattern_info(compiled_->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty) refuse("expected one that matches no empty string");
  // Where the JIT cannot run, PCRE2 interprets.
  pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);
  compiled_->limits.reset(pcre2_match_context_create(nullptr));
  if (!compiled_->limits) throw std::bad_alloc();
  pcre2_set_match_limit(compiled_->limits.get(), kMatchLimit);
}

SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;

// Returns the pattern as PCRE2 is to match it against symbols; nothing where there are too many of
// them.
std::optional<std::string> SplitPattern::learn_symbols(const SplitSyntax& syntax) {
  struct Edge {
    char32_t at;  // from here on characters are in the set, or no longer are
    size_t set;
  };
  std::vector<Edge> edges;
  for (size_t set = 0; set < syntax.sets.size(); ++set)
    for (const CharacterRange& range : syntax.sets[set]) {
      edges.push_back({range.first, set});
      edges.push_back({range.last + 1, set});
    }
  std::ranges::sort(edges, {}, &Edge::at);

  std::unordered_map<std::vector<bool>, char> symbol_of;  // by the sets that a character is in
  std::vector<std::string> classes(syntax.sets.size());   // the symbols of each
  std::vector<bool> sets(syntax.sets.size());
  page_of_.assign(kEndOfCharacters >> 8, 0);
  std::map<std::array<char, 256>, uint16_t> page_ids;
  std::array<char, 256> page{};
  auto edge = edges.begin();
  char symbol = 0;
  for (char32_t c = 0; c < kEndOfCharacters; ++c) {
    const auto first_edge = edge;
    for (; edge != edges.end() && edge->at == c; ++edge) sets[edge->set] = !sets[edge->set];
    if (c == 0 || edge != first_edge) {
      const auto [known, is_new] = symbol_of.emplace(sets, static_cast<char>(symbol_of.size()));
      if (symbol_of.size() > kMaxSymbols) return std::nullopt;
      symbol = known->second;
      for (size_t set = 0; is_new && set < sets.size(); ++set)
        if (sets[set]) classes[set] += hexadecimal(symbol_of.size() - 1);
    }
    page[c & 0xff] = symbol;
    if ((c & 0xff) != 0xff) continue;
    const auto [known, is_new] = page_ids.emplace(page, static_cast<uint16_t>(pages_.size()));
    if (is_new) pages_.push_back(page);
    page_of_[c >> 8] = known->second;
  }

  std::string pattern;
  for (const SplitSyntax::Part& part : syntax.parts) {
    pattern += part.text;
    if (part.set >= 0) pattern += "[" + classes[static_cast<size_t>(part.set)] + "]";
  }
  return pattern;
}

std::string SplitPattern::symbols_of(std::string_view text) const {
  std::string symbols;
  symbols.reserve(text.size());
  const std::array<char, 256>& first_page = pages_[page_of_[0]];
  for (size_t at = 0; at < text.size();) {
    if (const auto byte = static_cast<uint8_t>(text[at]); byte < 0x80) {
      symbols += first_page[byte];
      ++at;
      continue;
    }
    const Character character = first_character(text.substr(at));
    symbols += pages_[page_of_[character.code_point >> 8]][character.code_point & 0xff];
    at += character.bytes;
  }
  return symbols;
}

void SplitPattern::split(std::string_view text, std::vector<SplitPart>& parts) const {
  const Pcre2MatchData match(pcre2_match_data_create(1, nullptr));
  if (!match) throw std::bad_alloc();
  const size_t* const offsets = pcre2_get_ovector_pointer(match.get());
  const auto start = std::chrono::steady_clock::now();
  // With the characters of this text that have been split so far.
  auto excess_with = [&](size_t characters) {
    const std::chrono::nanoseconds excess =
        std::chrono::nanoseconds(compiled_->excess_ns.load(std::memory_order_relaxed)) +
        (std::chrono::steady_clock::now() - start) -
        kTimeOfCharacter * static_cast<int64_t>(characters);
    if (excess > kMaxTime)
      throw DataError("the tokenizer's regular expression takes too long to split the text");
    return std::max<int64_t>(0, excess.count());
  };
  const std::string symbols = symbols_of(text);
  const bool is_ascii = symbols.size() == text.size();
  size_t text_at = 0;  // what is not yet in a part
  auto append = [&](size_t characters, bool matches) {
    const size_t bytes =
        is_ascii ? characters : bytes_of_characters(text.substr(text_at), characters);
    parts.push_back({text.substr(text_at, bytes), matches});
    text_at += bytes;
  };
  int matches_until_look = kMatchesBetweenLooks;
  size_t unmatched = 0;  // where what did not match begins
  for (size_t at = 0; at < symbols.size();) {
    const int result =
        pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(symbols.data()),
                    symbols.size(), at, 0, match.get(), compiled_->limits.get());
    if (result == PCRE2_ERROR_NOMATCH) {
      ++at;
    } else if (result < 0) {
      throw DataError("cannot split the text by the tokenizer's regular expression: " +
                      pcre2_message(result));
    } else {
      if (unmatched < at) append(at - unmatched, false);
      append(offsets[1] - at, true);
      unmatched = at = offsets[1];
    }
    if (--matches_until_look == 0) {
      matches_until_look = kMatchesBetweenLooks;
      excess_with(at);
    }
  }
  // Mostly 0 before and after: threads would wait for each other's writes.
  const int64_t excess = excess_with(symbols.size());
  if (excess != compiled_->excess_ns.load(std::memory_order_relaxed))
    compiled_->excess_ns.store(excess, std::memory_order_relaxed);
  if (unmatched < symbols.size()) append(symbols.size() - unmatched, false);
}

}  // namespace longshore::data
