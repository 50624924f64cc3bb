#include "longshore/data/rows/scored_rows.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/data/rows/best_fit.h"

namespace longshore::data {

ScoredRows::ScoredRows(std::vector<ScoredSequence> sequences, const ScoredRowsOptions& options)
    : sequences_(std::move(sequences)), places_(sequences_.size()) {
  std::vector<RowRoom> taken;
  for (const ScoredSequence& sequence : sequences_) {
    const int64_t positions = std::ssize(sequence.tokens) - 1;
    if (sequence.context < 1 || sequence.context > positions || positions > options.length)
      throw InternalError("a sequence to score that fits into no row");
    taken.push_back({.positions = positions, .slots = 1});
  }
  rows_ = best_fit(taken, {.positions = options.length, .slots = options.sequences_per_row});
  for (size_t row = 0; row < rows_.size(); ++row)
    for (size_t i = 0; i < rows_[row].size(); ++i)
      places_[rows_[row][i]] = {.row = static_cast<int64_t>(row),
                                .segment = static_cast<int32_t>(kPadding + 1 + i)};
}

void ScoredRows::read(int64_t index, const Row& into) const {
  int64_t at = 0;
  for (const size_t i : rows_.at(static_cast<size_t>(index))) {
    const ScoredSequence& sequence = sequences_[i];
    std::vector<uint8_t> carries_loss(sequence.tokens.size(), 1);
    std::fill_n(carries_loss.begin(), sequence.context, uint8_t{0});
    into.put(at, places_[i].segment, sequence.tokens, carries_loss);
    at += std::ssize(sequence.tokens) - 1;
  }
}

}  // namespace longshore::data
