#include "longshore/trainer/report/text_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "longshore/base/printable.h"

namespace longshore::trainer {
namespace {

// In columns of a terminal, of which some characters take two: as fmt counts them when it fills up.
size_t width(const std::string& cell) {
  return 2 * cell.size() - fmt::formatted_size("{:<{}}", cell, cell.size());
}

}  // namespace

std::string text(Table table) {
  std::vector<size_t> widths(table[0].size());
  for (auto& row : table)
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = printable(row[i]);
      widths[i] = std::max(widths[i], width(row[i]));
    }
  std::string result;
  for (const auto& row : table) {
    result += fmt::format("{:<{}}", row[0], widths[0]);
    for (size_t i = 1; i < row.size(); ++i) result += fmt::format("  {:>{}}", row[i], widths[i]);
    result += "\n";
  }
  return result;
}

}  // namespace longshore::trainer
