// Prints what programs say to people. Results that other programs read go elsewhere, as they are:
// see longshore/base/result_output.h.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace longshore {

// Writes the text, which has its own line breaks, to stdout or stderr. Whoever makes a message
// already makes foreign texts in it printable and short (longshore/base/printable.h). This is the
// net below, for libraries' messages among others: nothing but printable_lines() gets through, and
// of a line of more than 8000 bytes the beginning, with its length.
void print(std::FILE* stream, std::string_view text);

// What gets through.
std::string shown(std::string_view text);

}  // namespace longshore
