// html_page() makes a page of HTML in one file that loads nothing from elsewhere; the functions
// beside it make its parts. All of them escape what they are given.
#pragma once

#include <string>
#include <vector>

#include "longshore/trainer/report/text_table.h"

namespace longshore::trainer {

// What has a meaning in HTML as its entity, and control characters as printable_lines() has them
// (base/printable.h).
std::string html_escaped(const std::string& text);

// A name as people write it: "validation losses/wiki" of "validation_losses/wiki".
std::string spaced(std::string name);

// `body` is HTML.
std::string html_page(const std::string& title, const std::string& body);

// A paragraph of a CSS class, "" for none.
std::string paragraph(const std::string& style, const std::string& text);

std::string table_html(const Table& table);

// Under a title that opens it by click and by key; `inner` is HTML.
std::string folded(const std::string& title, const std::string& inner);

// What colours and marks mean: items of HTML, such as swatch() gives.
std::string legend(const std::vector<std::string>& items);
// A square of the colour of a CSS variable, and a text.
std::string swatch(const std::string& variable, const std::string& text);

}  // namespace longshore::trainer
