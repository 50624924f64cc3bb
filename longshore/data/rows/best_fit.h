// best_fit() packs sequences of many lengths into rows of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace longshore::data {

// What a sequence takes of a row, or a row has: positions, and slots of something else of which it
// has so many.
struct RowRoom {
  int64_t positions = 0;
  int64_t slots = 0;
};

// The numbers of the sequences in each row: the longest first, each into the row where the fewest
// positions are left over (best-fit decreasing; Krell et al. 2021, arXiv 2107.02027), if that has
// the slots. Each sequence fits into a row by itself.
std::vector<std::vector<size_t>> best_fit(std::span<const RowRoom> sequences, const RowRoom& row);

}  // namespace longshore::data
