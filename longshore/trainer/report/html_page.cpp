#include "longshore/trainer/report/html_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "longshore/base/printable.h"
#include "longshore/trainer/report/page_script.h"
#include "longshore/trainer/report/page_style.h"
#include "longshore/trainer/report/palette.h"

namespace longshore::trainer {
std::string spaced(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

std::string html_escaped(const std::string& text) {
  std::string result;
  for (char c : printable_lines(text)) switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  return result;
}

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n{}</main>\n"
      "<script>{}</script>\n</body>\n</html>\n",
      html_escaped(title), page_palette() + kPageStyle, body, kPageScript);
}

std::string paragraph(const std::string& style, const std::string& text) {
  const std::string of_class = style.empty() ? "" : " class=\"" + style + "\"";
  return fmt::format("<p{}>{}</p>\n", of_class, html_escaped(text));
}

std::string table_html(const Table& table) {
  std::string html = "<div class=\"scroll\" tabindex=\"0\"><table>\n";
  for (size_t i = 0; i < table.size(); ++i) {
    html += "<tr>";
    for (const std::string& cell : table[i])
      html += fmt::format("<{0}>{1}</{0}>", i == 0 ? "th" : "td", html_escaped(cell));
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string folded(const std::string& title, const std::string& inner) {
  return "<details><summary>" + html_escaped(title) + "</summary>\n" + inner + "</details>\n";
}

std::string legend(const std::vector<std::string>& items) {
  std::string html = "<div class=\"legend\">";
  for (const std::string& item : items) html += "<span>" + item + "</span>";
  return html + "</div>\n";
}

std::string swatch(const std::string& variable, const std::string& text) {
  return fmt::format("<i style=\"background:var(--{})\"></i>{}", variable, html_escaped(text));
}

}  // namespace longshore::trainer
