// The rows that a dataset gives, each by its number.
#pragma once

#include <cstdint>
#include <span>

namespace longshore::data {

// The target of a position that is not trained.
constexpr int32_t kIgnoredTarget = -1;
// The segment of a position that holds no token of a dataset.
constexpr int32_t kPadding = 0;

// One row of a batch: T of each.
struct Row {
  std::span<int32_t> tokens;
  std::span<int32_t> targets;    // the token after each token, or kIgnoredTarget
  std::span<int32_t> positions;  // of each token within its sequence, from 0
  std::span<int32_t> segments;   // 1, 2, ... for the sequences of the row, then kPadding

  // Puts a sequence at positions [at, at + sequence.size() - 1): its last token is a target
  // only, its first an input only. `carries_loss` has 1 or 0 for each token.
  void put(int64_t at, int32_t segment, std::span<const int32_t> sequence,
           std::span<const uint8_t> carries_loss) const;
};

// Immutable: any number of threads may use it at a time.
class Rows {
 public:
  virtual ~Rows() = default;

  virtual int64_t count() const = 0;

  // Writes row `index` < count() into a row that is padding. At least one target is trained.
  virtual void read(int64_t index, const Row& into) const = 0;
};

}  // namespace longshore::data
