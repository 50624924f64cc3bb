// Sets of characters as Hugging Face's tokenizers has them. The machine's own tables are of another
// version of Unicode, by which the ids of a text would depend on the machine.
#pragma once

#include <span>
#include <string_view>

#include "longshore/data/tokenizers/character_set.h"

namespace longshore::data {

struct UnicodeSet {
  std::string_view name;
  std::span<const CharacterRange> characters;  // as in a CharacterSet
};

// General categories by names of two letters, but Cs (surrogates, which UTF-8 has none of) and Cn,
// and common scripts by the names of Script: those of Unicode 16, as regular expressions see them.
std::span<const UnicodeSet> unicode_categories();
std::span<const UnicodeSet> unicode_scripts();

// What a Digits pre-tokenizer takes for a digit (Unicode 17), and a Punctuation pre-tokenizer for
// punctuation (that of Unicode 8, and of ASCII with its symbols).
std::span<const CharacterRange> numeric_characters();
std::span<const CharacterRange> punctuation_characters();

// What words consist of: beside it no added token with single_word is found.
std::span<const CharacterRange> word_characters();

// What StripAccents takes away (the marks of Unicode 9).
std::span<const CharacterRange> accents();

struct CharacterPair {
  char32_t from = 0, to = 0;
};

// What Lowercase makes of capitals (Unicode 17), ascending; of U+0130, which is not among them, it
// makes "i" and U+0307.
std::span<const CharacterPair> lowercase_characters();

// By which a Precompiled normalizer divides a text into graphemes (Unicode 17). The last four, of
// which tokenizers shows nothing by themselves, are those of PyPI's regex 2026.11.19 (Unicode 18).
struct GraphemeSets {
  std::span<const CharacterRange> extending;  // belong to the character before
  std::span<const CharacterRange> prepended;  // to which the next character belongs
  std::span<const CharacterRange> pictographs;
  std::span<const CharacterRange> consonants, linkers, between_consonants;  // InCB
};
const GraphemeSets& grapheme_sets();

}  // namespace longshore::data
