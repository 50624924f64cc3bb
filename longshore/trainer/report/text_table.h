// A Table is rows of cells, of which the first has the titles, as terminals and pages show it.
#pragma once

#include <string>
#include <vector>

namespace longshore::trainer {

// All rows have the same length.
using Table = std::vector<std::vector<std::string>>;

// With aligned columns: the first one to the left and the others to the right. What is not
// printable in a cell is escaped.
std::string text(Table table);

}  // namespace longshore::trainer
