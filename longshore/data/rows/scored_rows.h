// ScoredRows are rows of sequences whose last tokens are scored, each sequence by itself: choices
// behind a prompt.
#pragma once

#include <cstdint>
#include <vector>

#include "longshore/data/rows/rows.h"

namespace longshore::data {

struct ScoredSequence {
  std::vector<int32_t> tokens;
  int64_t context = 0;  // so many of them, at least one, stand before those that are scored
};

struct ScoredRowsOptions {
  int64_t length = 0;             // T
  int64_t sequences_per_row = 1;  // at most; more than one only for models with segments
};

// Packed by best_fit() as segments that do not see each other, each with positions from 0. Targets
// are the tokens that are scored.
class ScoredRows : public Rows {
 public:
  // Each sequence has at most T + 1 tokens, and some that are scored.
  ScoredRows(std::vector<ScoredSequence> sequences, const ScoredRowsOptions& options);

  int64_t count() const override { return static_cast<int64_t>(rows_.size()); }
  void read(int64_t index, const Row& into) const override;

  // Where a sequence is: its segment is what kSegments has there.
  struct Place {
    int64_t row = 0;
    int32_t segment = kPadding;
  };
  const std::vector<Place>& places() const { return places_; }

 private:
  std::vector<ScoredSequence> sequences_;
  std::vector<std::vector<size_t>> rows_;
  std::vector<Place> places_;  // of each sequence
};

}  // namespace longshore::data
