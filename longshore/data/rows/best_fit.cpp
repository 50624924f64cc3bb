#include "longshore/data/rows/best_fit.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace longshore::data {

std::vector<std::vector<size_t>> best_fit(std::span<const RowRoom> sequences, const RowRoom& row) {
  std::vector<size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](size_t i) { return sequences[i].positions; });
  std::vector<std::vector<size_t>> rows;
  std::vector<int64_t> slots;                 // that are left in each
  std::set<std::pair<int64_t, size_t>> room;  // positions that are left, row
  for (const size_t i : order) {
    const RowRoom& sequence = sequences[i];
    auto tightest =
        std::find_if(room.lower_bound({sequence.positions, 0}), room.end(),
                     [&](const auto& one) { return slots[one.second] >= sequence.slots; });
    if (tightest == room.end()) {
      tightest = room.emplace(row.positions, rows.size()).first;
      rows.emplace_back();
      slots.push_back(row.slots);
    }
    const auto [left, number] = *tightest;
    rows[number].push_back(i);
    slots[number] -= sequence.slots;
    room.erase(tightest);
    room.emplace(left - sequence.positions, number);
  }
  return rows;
}

}  // namespace longshore::data
