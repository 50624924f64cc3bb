#include "longshore/data/rows/mixture.h"

#include <string>
#include <utility>

#include "longshore/base/error.h"

namespace longshore::data {
namespace {

// floor(rows * share / total): how many of the first `rows` are of a source.
int64_t rows_of(int64_t rows, uint64_t share, uint64_t total) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<int64_t>(static_cast<Wide>(rows) * share / total);
}

}  // namespace

Mixture::Mixture(std::vector<uint64_t> shares) : shares_(std::move(shares)), left_(shares_.size()) {
  uint64_t sum = 0;
  for (size_t i = shares_.size(); i-- > 0; left_[i] = sum) {
    sum += shares_[i];
    if (shares_[i] == 0 || sum < shares_[i] || sum >> 62)
      throw InternalError("a share of " + std::to_string(shares_[i]));
  }
  if (sum == 0) throw InternalError("a mixture of nothing");
}

// Each source in turn takes its share, evenly, of the rows that those before it left.
Mixture::Place Mixture::operator()(int64_t row) const {
  size_t source = 0;
  for (; source + 1 < shares_.size(); ++source) {
    const int64_t before = rows_of(row, shares_[source], left_[source]);
    if (rows_of(row + 1, shares_[source], left_[source]) > before) return {source, before};
    row -= before;
  }
  return {source, row};
}

}  // namespace longshore::data
