#include "longshore/trainer/report/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace longshore::trainer {

std::string text(const Table& table) {
  std::vector<size_t> widths(table[0].size());
  for (const auto& row : table)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string result;
  for (const auto& row : table) {
    result += fmt::format("{:<{}}", row[0], widths[0]);
    for (size_t i = 1; i < row.size(); ++i) result += fmt::format("  {:>{}}", row[i], widths[i]);
    result += "\n";
  }
  return result;
}

}  // namespace longshore::trainer
