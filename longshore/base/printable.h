// Makes a text that comes from a file, the environment or a command line fit for a message and a
// terminal: printable, on one line, and short.
//
// A terminal takes control characters as commands, and some others reorder or hide what stands
// beside them. Those are written as escapes: \n, \x1b for an ASCII control character or a byte that
// is not UTF-8, \u202e for a character beyond ASCII. They are
// - the controls C0 and C1 and DEL, separators of lines and paragraphs,
// - format characters that show nothing: marks, embeddings, overrides and isolates of direction,
//   characters without width, tags, the byte order mark.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace longshore {

// The text on one line. Backslashes stay as they are.
std::string printable(std::string_view text);

inline constexpr size_t kMostOfExcerpt = 120;

// printable(), and short: of more than `most` bytes the beginning, cut between characters, with the
// length, "abc... (2000 bytes)".
std::string excerpt(std::string_view text, size_t most = kMostOfExcerpt);

// A library's message, which may quote what it was given: printable(), and of more than 1024 bytes
// the beginning and the end.
std::string library_message(std::string_view message);

// excerpt() in double quotes, with backslashes before those within and before backslashes:
// "\"a\\b\"", "\"abc...\" (2000 bytes)".
std::string in_quotes(std::string_view text);

// A path as messages give it: printable(), and of more than 1024 bytes the beginning and the end,
// which has the file's name: "/a/b...c/d.txt (5000 bytes)".
std::string path_text(const std::filesystem::path& path);

// A text of many lines, such as one that a model writes, for a terminal: line breaks and tabs stay,
// and so do hyphens that are soft and the joiners U+200C and U+200D, without which Persian and
// emoji are misspelt.
std::string printable_lines(std::string_view text);

}  // namespace longshore
