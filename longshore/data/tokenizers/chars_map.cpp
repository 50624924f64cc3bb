#include "longshore/data/tokenizers/chars_map.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/graphemes.h"

namespace longshore::data {
namespace {

// Far above what real rules have; they bound time and memory.
constexpr size_t kMaxCharsMapBytes = size_t{4} << 20;
constexpr size_t kMaxReplacementBytes = 100;

// The size of an array inside sentencepiece that it fills with matches without looking.
constexpr int kMaxNestedRules = 32;

// The normaliser's rules: a double-array trie over the text to replace, whose values are offsets
// into a block of replacement strings. A unit of the trie has a label in its low 8 bits (and the
// top bit, set in value units), "a value follows" in bit 8, and an offset to XOR its own place
// with. sentencepiece follows these offsets unchecked.
size_t offset_of(uint32_t unit) { return size_t{unit >> 10} << ((unit & (1u << 9)) >> 6); }

bool leads_by(uint32_t unit, unsigned char label) { return (unit & 0x800000ff) == label; }

std::vector<uint32_t> units_of(std::string_view bytes) {
  std::vector<uint32_t> units(bytes.size() / sizeof(uint32_t));
  std::memcpy(units.data(), bytes.data(), units.size() * sizeof(uint32_t));
  return units;
}

class RuleTrie {
 public:
  explicit RuleTrie(std::string_view bytes) : units_(units_of(bytes)) {}

  // Throws unless every place that any text can lead to lies inside, and none leads to more than
  // kMaxNestedRules matches. Subtrees are shared, so each is judged once.
  void check() const {
    std::vector<int> matches_below(units_.size(), kUnknown);
    struct Visit {
      size_t place;
      int next_label;
      int most_matches;
    };
    std::vector<Visit> path;
    // There are whole blocks of 256 units: where a place is inside, so are all its labels' units.
    auto inside = [&](size_t place) {
      if (place >= units_.size()) throw DataError("normaliser trie leads outside");
      return place;
    };
    auto enter = [&](size_t place) {
      matches_below[place] = kOnPath;
      path.push_back({place, 0, 0});
    };
    enter(inside(offset_of(units_[0])));
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.next_label == 256) {
        if (visit.most_matches > kMaxNestedRules)
          throw DataError("normaliser trie nests too many rules");
        matches_below[visit.place] = visit.most_matches;
        path.pop_back();
        continue;
      }
      const size_t at = visit.place ^ static_cast<size_t>(visit.next_label);
      const uint32_t unit = units_[at];
      if (!leads_by(unit, static_cast<unsigned char>(visit.next_label))) {
        ++visit.next_label;
        continue;
      }
      const size_t child = inside(at ^ offset_of(unit));
      if (matches_below[child] == kOnPath) throw DataError("normaliser trie has a cycle");
      if (matches_below[child] == kUnknown) {
        enter(child);  // and look at this label again when the child is known
        continue;
      }
      const int matches = matches_below[child] + static_cast<int>(unit >> 8 & 1);
      visit.most_matches = std::max(visit.most_matches, matches);
      ++visit.next_label;
    }
  }

 private:
  static constexpr int kUnknown = -1;
  static constexpr int kOnPath = -2;

  std::vector<uint32_t> units_;
};

// The trie and the replacements behind it.
std::pair<std::string_view, std::string_view> parts_of(std::string_view bytes) {
  if (bytes.size() > kMaxCharsMapBytes) throw DataError("normaliser rules larger than 4 MiB");
  uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof trie_bytes) throw DataError("normaliser rules cut off");
  std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  bytes.remove_prefix(sizeof trie_bytes);
  if (trie_bytes < 1024 || trie_bytes % 1024 != 0 || trie_bytes >= bytes.size())
    throw DataError("normaliser trie of " + std::to_string(trie_bytes) + " bytes within " +
                    std::to_string(bytes.size()));
  return {bytes.substr(0, trie_bytes), bytes.substr(trie_bytes)};
}

}  // namespace

void check_chars_map(std::string_view bytes) {
  if (bytes.empty()) return;
  auto [trie, replacements] = parts_of(bytes);
  RuleTrie(trie).check();
  while (!replacements.empty()) {
    const size_t length = replacements.find('\0');
    if (length == std::string_view::npos) throw DataError("normaliser replacement without an end");
    if (length > kMaxReplacementBytes) throw DataError("normaliser replacement too long");
    replacements.remove_prefix(length + 1);
  }
}

CharsMap::CharsMap(std::string_view bytes) {
  check_chars_map(bytes);
  if (bytes.empty()) return;
  const auto [trie, replacements] = parts_of(bytes);
  units_ = units_of(trie);
  replacements_ = replacements;
  if (valid_utf8_prefix(replacements_) != replacements_.size())
    throw DataError("normaliser replacements that are not UTF-8");
}

std::optional<std::string_view> CharsMap::replacement_of(std::string_view chunk) const {
  size_t at = offset_of(units_[0]);
  for (const char c : chunk) {
    if (c == '\0') return std::nullopt;
    at ^= static_cast<unsigned char>(c);
    const uint32_t unit = units_[at];
    if (!leads_by(unit, static_cast<unsigned char>(c))) return std::nullopt;
    at ^= offset_of(unit);
    if ((unit >> 8 & 1) == 0) continue;
    const size_t begin = units_[at] & 0x7fffffff;
    if (begin >= replacements_.size() || (replacements_[begin] & 0xc0) == 0x80) return std::nullopt;
    return std::string_view(replacements_.c_str() + begin);
  }
  return std::nullopt;
}

std::optional<std::string> CharsMap::applied_to(std::string_view text, size_t most_bytes) const {
  constexpr size_t kShort = 6;
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size() && !units_.empty();) {
    std::string_view cluster = text.substr(at, grapheme_length(text.substr(at)));
    at += cluster.size();
    if (const auto whole = cluster.size() < kShort ? replacement_of(cluster) : std::nullopt) {
      result += *whole;
    } else {
      while (!cluster.empty()) {
        const std::string_view character = cluster.substr(0, first_character(cluster).bytes);
        result += replacement_of(character).value_or(character);
        cluster.remove_prefix(character.size());
      }
    }
    if (result.size() > most_bytes) return std::nullopt;
  }
  return units_.empty() ? std::string(text) : std::move(result);
}

}  // namespace longshore::data
