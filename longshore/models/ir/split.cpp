#include "longshore/models/ir/split.h"

#include <algorithm>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/round_up.h"

namespace longshore::models {

std::string text(const Split& split) {
  return std::string("split over ") + name(split.axis) + ": dimension " +
         std::to_string(split.dimension) + " in " + std::to_string(split.parts) + " parts";
}

Shape tensor_shape(const Shape& part, const std::optional<Split>& split) {
  return split ? part.with(split->dimension, part[split->dimension] * split->parts) : part;
}

SplitRuns::SplitRuns(const Shape& part, const std::optional<Split>& split, int64_t block)
    : count_(ceil_div(part.count(), block)), parts_(split ? split->parts : 1), run_length_(count_) {
  if (parts_ == 1) return;
  int64_t elements = 1;
  for (int d = split->dimension; d < part.rank(); ++d) elements *= part[d];
  if (elements % block != 0)
    throw InternalError("found " + std::to_string(elements) +
                        " elements in a row of a part, expected a multiple of " +
                        std::to_string(block));
  run_length_ = elements / block;
}

std::vector<SplitRun> SplitRuns::of_part(int64_t part, int64_t first, int64_t count) const {
  if (parts_ == 1) return {{0, first, first, count}};
  std::vector<SplitRun> runs;
  for (const int64_t end = first + count; first < end; first += runs.back().count) {
    const int64_t row = first / run_length_, skipped = first % run_length_;
    runs.push_back({part, first, (row * parts_ + part) * run_length_ + skipped,
                    std::min(run_length_ - skipped, end - first)});
  }
  return runs;
}

std::vector<SplitRun> SplitRuns::of_tensor(int64_t first, int64_t count) const {
  if (parts_ == 1) return {{0, first, first, count}};
  std::vector<SplitRun> runs;
  for (const int64_t end = first + count; first < end; first += runs.back().count) {
    const int64_t row = first / run_length_, skipped = first % run_length_;
    runs.push_back({row % parts_, row / parts_ * run_length_ + skipped, first,
                    std::min(run_length_ - skipped, end - first)});
  }
  return runs;
}

}  // namespace longshore::models
