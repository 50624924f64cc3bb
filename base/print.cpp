#include "base/print.h"

#include <string>

#include "base/printable.h"
#include "base/utf8.h"

namespace longshore {
namespace {

constexpr size_t kMostOnLine = 8000;

std::string shown_line(std::string_view line) {
  if (line.size() <= kMostOnLine) return printable_lines(line);
  return printable_lines(first_bytes(line, kMostOnLine)) + "... (" + std::to_string(line.size()) +
         " bytes)";
}

}  // namespace

void print(std::FILE* stream, std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    shown += shown_line(text.substr(0, end));
    if (end == text.npos) break;
    shown += '\n';
    text.remove_prefix(end + 1);
  }
  std::fwrite(shown.data(), 1, shown.size(), stream);
}

}  // namespace longshore
