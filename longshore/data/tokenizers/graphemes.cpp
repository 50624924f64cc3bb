#include "longshore/data/tokenizers/graphemes.h"

#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/unicode_sets.h"

namespace longshore::data {
namespace {

constexpr char32_t kJoiner = 0x200d;

// Parts of a syllable of Hangul: a leading consonant, a vowel, a trailing consonant.
enum class Jamo { none, l, v, t, lv, lvt };

Jamo jamo(char32_t c) {
  if ((c >= 0x1100 && c <= 0x115f) || (c >= 0xa960 && c <= 0xa97c)) return Jamo::l;
  if ((c >= 0x1160 && c <= 0x11a7) || (c >= 0xd7b0 && c <= 0xd7c6)) return Jamo::v;
  if ((c >= 0x11a8 && c <= 0x11ff) || (c >= 0xd7cb && c <= 0xd7fb)) return Jamo::t;
  if (c >= 0xac00 && c <= 0xd7a3) return (c - 0xac00) % 28 == 0 ? Jamo::lv : Jamo::lvt;
  return Jamo::none;
}

bool is_syllable(Jamo before, Jamo after) {
  if (after == Jamo::none) return false;
  if (before == Jamo::l) return after != Jamo::t;
  if (before == Jamo::v || before == Jamo::lv) return after == Jamo::v || after == Jamo::t;
  return (before == Jamo::t || before == Jamo::lvt) && after == Jamo::t;
}

bool is_control(char32_t c) {
  for (const UnicodeSet& set : unicode_categories())
    if (set.name == "Cc" || set.name == "Zl" || set.name == "Zp" || set.name == "Cf")
      if (contains(set.characters, c))
        return c != kJoiner && !contains(grapheme_sets().extending, c) &&
               !contains(grapheme_sets().prepended, c);
  return false;
}

// What has been seen of a cluster, as far as it says whether the next character belongs to it.
class Cluster {
 public:
  explicit Cluster(char32_t first) { take(first); }

  bool goes_on_with(char32_t next) const {
    const GraphemeSets& sets = grapheme_sets();
    if (last_ == '\r') return next == '\n';
    if (is_control_ || next == '\r' || next == '\n') return false;
    if (contains(sets.extending, next)) return true;
    if (is_prepended_) return !is_control(next);
    if (is_syllable(jamo(last_), jamo(next))) return true;
    if (joins_pictographs_ && last_ == kJoiner && contains(sets.pictographs, next)) return true;
    return is_linked_ && contains(sets.consonants, next);
  }

  void take(char32_t next) {
    const GraphemeSets& sets = grapheme_sets();
    if (contains(sets.pictographs, next))
      joins_pictographs_ = true;
    else if (!contains(sets.extending, next))
      joins_pictographs_ = false;
    if (contains(sets.consonants, next)) {
      follows_consonant_ = true;
      is_linked_ = false;
    } else if (contains(sets.linkers, next)) {
      is_linked_ = follows_consonant_;
    } else if (!contains(sets.between_consonants, next)) {
      follows_consonant_ = is_linked_ = false;
    }
    is_control_ = next != '\r' && is_control(next);
    is_prepended_ = contains(sets.prepended, next);
    last_ = next;
  }

 private:
  char32_t last_ = 0;
  bool is_control_ = false, is_prepended_ = false;
  bool joins_pictographs_ = false;  // one with what extends it
  bool follows_consonant_ = false, is_linked_ = false;
};

}  // namespace

size_t grapheme_length(std::string_view text) {
  const Character first = first_character(text);
  size_t length = first.bytes;
  // The most common case: letters of ASCII side by side.
  if (length == text.size()) return length;
  if (first.code_point < 0x80 && first.code_point != '\r' &&
      static_cast<unsigned char>(text[length]) < 0x80)
    return length;
  for (Cluster cluster(first.code_point); length < text.size();) {
    const Character next = first_character(text.substr(length));
    if (!cluster.goes_on_with(next.code_point)) break;
    cluster.take(next.code_point);
    length += next.bytes;
  }
  return length;
}

}  // namespace longshore::data
