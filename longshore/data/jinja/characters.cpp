#include "longshore/data/jinja/characters.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <vector>

#include "longshore/base/utf8.h"

namespace longshore::data::jinja {
namespace {

constexpr const char* kNoLanguage = "";

// Of a part that is searched for in the simplest way, which is the fastest for most texts.
constexpr size_t kShort = 32;

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

template <class Map>
std::string mapped(std::string_view text, Map map, Budget& budget) {
  budget.step(text.size() / 16);
  budget.memory(text.size());
  if (text.size() > Budget::kMostOutput) Budget::refuse(Budget::kMostOutput, "bytes in a text");
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  UErrorCode error = U_ZERO_ERROR;
  map(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink, error);
  if (U_FAILURE(error))
    throw DataError(std::string("cannot change the case of a text: ") + u_errorName(error));
  return result;
}

template <class F>
void for_each_character(std::string_view text, F f) {
  while (!text.empty()) {
    const Character character = first_character(text);
    f(character.code_point, text.substr(0, character.bytes));
    text.remove_prefix(character.bytes);
  }
}

UChar32 icu_character(char32_t character) { return static_cast<UChar32>(character); }
bool has(char32_t character, UProperty property) {
  return u_hasBinaryProperty(icu_character(character), property);
}

// The capital that a word has at its head: the first letter of what a letter without a single
// capital becomes, as ß becomes Ss.
std::string title_character(char32_t code_point, std::string_view character, Budget& budget) {
  const UChar32 title = u_totitle(icu_character(code_point));
  std::string capital;
  if (title != icu_character(code_point)) {
    append_character(capital, static_cast<char32_t>(title));
    return capital;
  }
  capital = upper(character, budget);
  const size_t first = first_character(capital).bytes;
  return capital.substr(0, first) + lower(std::string_view(capital).substr(first), budget);
}

// Whether letters with case follow each other as in a title.
bool is_title(std::string_view text) {
  bool is_after_letter = false, has_letter = false, holds = true;
  for_each_character(text, [&](char32_t c, std::string_view) {
    const bool is_capital = has(c, UCHAR_UPPERCASE) || u_istitle(icu_character(c));
    const bool is_small = has(c, UCHAR_LOWERCASE);
    if ((is_capital && is_after_letter) || (is_small && !is_after_letter)) holds = false;
    is_after_letter = is_capital || is_small;
    has_letter |= is_after_letter;
  });
  return holds && has_letter;
}

// That all letters that have a case have this, and there is one.
bool has_case(std::string_view text, UProperty wanted, UProperty other) {
  bool has_letter = false, holds = true;
  for_each_character(text, [&](char32_t c, std::string_view) {
    if (has(c, other) || u_istitle(icu_character(c))) holds = false;
    has_letter |= has(c, wanted);
  });
  return holds && has_letter;
}

bool is_of(char32_t character, CharacterClass character_class) {
  const UChar32 c = icu_character(character);
  const auto numeric = static_cast<UNumericType>(u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE));
  switch (character_class) {
    case CharacterClass::alphabetic:
      return u_isalpha(c);
    case CharacterClass::alphanumeric:
      return u_isalpha(c) || numeric != U_NT_NONE;
    case CharacterClass::ascii:
      return character < 0x80;
    case CharacterClass::decimal:
      return numeric == U_NT_DECIMAL;
    case CharacterClass::digit:
      return numeric == U_NT_DECIMAL || numeric == U_NT_DIGIT;
    case CharacterClass::numeric:
      return numeric != U_NT_NONE;
    case CharacterClass::space:
      return is_space(character);
    case CharacterClass::printable:
      return is_printable(character);
    case CharacterClass::identifier:
      return character == '_' || has(character, UCHAR_XID_CONTINUE);
    default:
      return false;
  }
}

template <class Strip>
std::string_view stripped(std::string_view text, const std::string* removed, Budget& budget,
                          Strip strip) {
  // A set of few characters is searched for each of the text's.
  if (removed) budget.scan(removed->size());
  auto goes = [&](std::string_view character) {
    if (!removed) return is_space(first_character(character).code_point);
    budget.step(1 + removed->size() / 16);
    return removed->find(character) != std::string::npos;
  };
  const std::string_view rest = strip(text, goes);
  budget.step((text.size() - rest.size()) / 8);
  return rest;
}

// Compares the part anew at each place where its first byte stands.
size_t find_short(std::string_view text, std::string_view part, size_t from, Budget& budget) {
  if (part.empty()) return from;
  for (size_t compared = 1;; ++compared) {
    const size_t found = text.find(part[0], from);
    budget.scan(std::min(found, text.size()) - from);
    if (found == text.npos || text.substr(found).starts_with(part)) return found;
    if (compared % 8 == 0) budget.step();
    from = found + 1;
  }
}

// By the part's borders (Knuth, Morris and Pratt).
size_t find_long(std::string_view text, std::string_view part, size_t from, Budget& budget) {
  budget.step((text.size() - from) / 16 + part.size() / 16);
  budget.memory(part.size() * sizeof(size_t));
  std::vector<size_t> border(part.size() + 1, 0);
  for (size_t i = 1, matched = 0; i < part.size(); ++i) {
    while (matched > 0 && part[i] != part[matched]) matched = border[matched];
    if (part[i] == part[matched]) ++matched;
    border[i + 1] = matched;
  }
  for (size_t i = from, matched = 0; i < text.size(); ++i) {
    while (matched > 0 && text[i] != part[matched]) matched = border[matched];
    if (text[i] == part[matched]) ++matched;
    if (matched == part.size()) return i + 1 - matched;
  }
  return text.npos;
}

}  // namespace

size_t count_characters(std::string_view text, Budget& budget) {
  budget.scan(text.size());
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & '\xc0') != '\x80'; }));
}

size_t byte_of_character(std::string_view text, size_t character, Budget& budget) {
  size_t byte = 0;
  budget.scan(std::min(text.size(), character));
  for (; character > 0 && byte < text.size(); --character)
    byte += first_character(text.substr(byte)).bytes;
  return byte;
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool is_word(char32_t character) {
  return character == '_' || is_of(character, CharacterClass::alphanumeric);
}

bool is_printable(char32_t character) {
  if (character == ' ') return true;
  switch (u_charType(icu_character(character))) {
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_SURROGATE:
    case U_PRIVATE_USE_CHAR:
    case U_UNASSIGNED:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
    case U_SPACE_SEPARATOR:
      return false;
    default:
      return true;
  }
}

void append_character(std::string& text, char32_t c) {
  auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) return add(c);
  if (c < 0x800) {
    add(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      add(0xe0 | c >> 12);
    } else {
      add(0xf0 | c >> 18);
      add(0x80 | (c >> 12 & 0x3f));
    }
    add(0x80 | (c >> 6 & 0x3f));
  }
  add(0x80 | (c & 0x3f));
}

std::string_view stripped_left(std::string_view text, const std::string* removed, Budget& budget) {
  return stripped(text, removed, budget, [](std::string_view rest, auto goes) {
    while (!rest.empty()) {
      const size_t bytes = first_character(rest).bytes;
      if (!goes(rest.substr(0, bytes))) break;
      rest.remove_prefix(bytes);
    }
    return rest;
  });
}

std::string_view stripped_right(std::string_view text, const std::string* removed, Budget& budget) {
  return stripped(text, removed, budget, [](std::string_view rest, auto goes) {
    while (!rest.empty()) {
      const size_t last = last_character_at(rest);
      if (!goes(rest.substr(last))) break;
      rest = rest.substr(0, last);
    }
    return rest;
  });
}

size_t find_text(std::string_view text, std::string_view part, size_t from, Budget& budget) {
  if (from > text.size()) return text.npos;
  return part.size() <= kShort ? find_short(text, part, from, budget)
                               : find_long(text, part, from, budget);
}

size_t rfind_text(std::string_view text, std::string_view part, Budget& budget) {
  if (part.size() <= kShort) {
    const size_t found = text.rfind(part);
    budget.step((text.size() - (found == text.npos ? 0 : found)) / 4);
    return found;
  }
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_part(part.rbegin(), part.rend());
  budget.memory(text.size());
  const size_t found = find_text(reversed_text, reversed_part, 0, budget);
  return found == text.npos ? found : text.size() - found - part.size();
}

std::string upper(std::string_view text, Budget& budget) {
  return mapped(
      text,
      [](icu::StringPiece from, icu::ByteSink& to, UErrorCode& error) {
        icu::CaseMap::utf8ToUpper(kNoLanguage, 0, from, to, nullptr, error);
      },
      budget);
}

std::string lower(std::string_view text, Budget& budget) {
  return mapped(
      text,
      [](icu::StringPiece from, icu::ByteSink& to, UErrorCode& error) {
        icu::CaseMap::utf8ToLower(kNoLanguage, 0, from, to, nullptr, error);
      },
      budget);
}

std::string swapped_case(std::string_view text, Budget& budget) {
  std::string result;
  for_each_character(text, [&](char32_t c, std::string_view character) {
    result += has(c, UCHAR_UPPERCASE)   ? lower(character, budget)
              : has(c, UCHAR_LOWERCASE) ? upper(character, budget)
                                        : std::string(character);
  });
  return result;
}

std::string capitalized(std::string_view text, Budget& budget) {
  if (text.empty()) return "";
  const Character first = first_character(text);
  const std::string_view head = text.substr(0, first.bytes);
  // What is small may depend on the letter before: a sigma at the end of a word.
  return title_character(first.code_point, head, budget) +
         lower(text, budget).substr(lower(head, budget).size());
}

std::string titled(std::string_view text, Budget& budget) {
  budget.step(text.size() / 4);
  std::string result;
  size_t begin = 0, at = 0;  // of the letters in a row that end here
  auto end_word = [&] { result += capitalized(text.substr(begin, at - begin), budget); };
  for_each_character(text, [&](char32_t c, std::string_view character) {
    at += character.size();
    if (has(c, UCHAR_CASED)) return;
    end_word();
    begin = at;
  });
  end_word();
  return result;
}

bool is_all(std::string_view text, CharacterClass character_class, Budget& budget) {
  budget.step(text.size() / 8);
  switch (character_class) {
    case CharacterClass::lower:
      return has_case(text, UCHAR_LOWERCASE, UCHAR_UPPERCASE);
    case CharacterClass::upper:
      return has_case(text, UCHAR_UPPERCASE, UCHAR_LOWERCASE);
    case CharacterClass::title:
      return is_title(text);
    case CharacterClass::ascii:
      return is_ascii(text);
    default:
      break;
  }
  bool holds = !text.empty();
  if (character_class == CharacterClass::identifier && holds) {
    const char32_t first = first_character(text).code_point;
    holds = first == '_' || has(first, UCHAR_XID_START);
  }
  if (character_class == CharacterClass::printable) holds = true;
  for_each_character(text, [&](char32_t c, std::string_view) {
    if (!is_of(c, character_class)) holds = false;
  });
  return holds;
}

}  // namespace longshore::data::jinja
