// The rows of a run in the order in which it takes them.
#pragma once

#include <cstdint>

#include "longshore/data/rows/batch.h"

namespace longshore::data {

// Endless, and a pure function of a row's place: any number of threads may ask at a time, in any
// order.
class RowSequence {
 public:
  virtual ~RowSequence() = default;

  // Writes the row at `place`, from 0 on, into a row that is padding. At least one target is
  // trained.
  virtual void read(int64_t place, const Row& into) const = 0;
};

}  // namespace longshore::data
