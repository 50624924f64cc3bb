// A Split says how a tensor is divided among the devices along an axis of the mesh: each has an
// equal part of one dimension, in the order of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "longshore/models/ir/axis.h"
#include "longshore/models/ir/types.h"

namespace longshore::models {

struct Split {
  Axis axis = Axis::data;
  int dimension = 0;
  int64_t parts = 1;

  bool operator==(const Split&) const = default;
};

std::string text(const Split& split);  // "split over data: dimension 0 in 2 parts"

// The tensor's shape, from that of a part.
Shape tensor_shape(const Shape& part, const std::optional<Split>& split);

// Elements, row-major, that follow each other in a part and in the tensor.
struct SplitRun {
  int64_t part = 0;  // its number
  int64_t in_part = 0, in_tensor = 0;
  int64_t count = 0;
};

// The elements of a part, or of the tensor, in runs as long as they can be. A tensor that is not
// split has one part.
class SplitRuns {
 public:
  // Where a value stands for `block` elements, runs are of such values. Throws InternalError where
  // blocks would have elements of several runs.
  SplitRuns(const Shape& part, const std::optional<Split>& split, int64_t block = 1);

  int64_t part_count() const { return count_; }  // elements of a part
  int64_t longest() const { return run_length_; }
  std::vector<SplitRun> of_part(int64_t part, int64_t first, int64_t count) const;
  std::vector<SplitRun> of_tensor(int64_t first, int64_t count) const;

 private:
  int64_t count_;  // of a part
  int64_t parts_;
  int64_t run_length_;  // elements of a part that follow each other in the tensor
};

}  // namespace longshore::models
