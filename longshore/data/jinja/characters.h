// What Python knows of characters: white space, letters, positions in a text that count characters.
//
// ICU knows the characters of its own version of Unicode, Python those of its: of newer ones one of
// them may say that they are letters, and the other that they are unassigned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "longshore/data/jinja/budget.h"

namespace longshore::data::jinja {

// All texts are valid UTF-8.
size_t count_characters(std::string_view text, Budget& budget);
// The byte at which a character begins, or the end where there are no more.
size_t byte_of_character(std::string_view text, size_t character, Budget& budget);

bool is_space(char32_t character);
bool is_word(char32_t character);  // a letter, a digit or _
// As repr() shows it.
bool is_printable(char32_t character);
void append_character(std::string& text, char32_t character);

// Without white space, or without the characters of `removed` where that is given.
std::string_view stripped_left(std::string_view text, const std::string* removed, Budget& budget);
std::string_view stripped_right(std::string_view text, const std::string* removed, Budget& budget);

// Where `part` is found at or after a byte; npos where it is not. Takes time that is linear in the
// text.
size_t find_text(std::string_view text, std::string_view part, size_t from, Budget& budget);
size_t rfind_text(std::string_view text, std::string_view part, Budget& budget);

std::string upper(std::string_view text, Budget& budget);
std::string lower(std::string_view text, Budget& budget);
std::string swapped_case(std::string_view text, Budget& budget);
std::string capitalized(std::string_view text, Budget& budget);
// Each run of letters with a capital at its head.
std::string titled(std::string_view text, Budget& budget);

// str.isalpha() and its like: that there are characters, and all are such.
enum class CharacterClass {
  alphabetic,
  alphanumeric,
  ascii,
  decimal,
  digit,
  numeric,
  space,
  printable,
  identifier,
  lower,
  upper,
  title
};
bool is_all(std::string_view text, CharacterClass character_class, Budget& budget);

}  // namespace longshore::data::jinja
