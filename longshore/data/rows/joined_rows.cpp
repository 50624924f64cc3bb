#include "longshore/data/rows/joined_rows.h"

#include <algorithm>
#include <utility>

namespace longshore::data {

JoinedRows::JoinedRows(std::vector<std::shared_ptr<const Rows>> parts)
    : parts_(std::move(parts)), firsts_{0} {
  for (const auto& part : parts_) firsts_.push_back(firsts_.back() + part->count());
}

void JoinedRows::read(int64_t index, const Row& into) const {
  const auto part = std::ranges::upper_bound(firsts_, index) - firsts_.begin() - 1;
  parts_[static_cast<size_t>(part)]->read(index - firsts_[static_cast<size_t>(part)], into);
}

}  // namespace longshore::data
