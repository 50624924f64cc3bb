#include "longshore/base/print.h"

#include <string>

#include "longshore/base/before_printing.h"
#include "longshore/base/printable.h"
#include "longshore/base/standard_output.h"
#include "longshore/base/utf8.h"

namespace longshore {
namespace {

constexpr size_t kMostOnLine = 8000;

std::string shown_line(std::string_view line) {
  if (line.size() <= kMostOnLine) return printable_lines(line);
  return printable_lines(first_bytes(line, kMostOnLine)) + "... (" + std::to_string(line.size()) +
         " bytes)";
}

}  // namespace

std::string shown(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines += shown_line(text.substr(0, end));
    if (end == text.npos) break;
    lines += '\n';
    text.remove_prefix(end + 1);
  }
  return lines;
}

void print(std::FILE* stream, std::string_view text) {
  prepare_to_print();
  const std::string lines = shown(text);
  if (stream == stdout) return put_output(lines);
  std::fwrite(lines.data(), 1, lines.size(), stream);
}

}  // namespace longshore
