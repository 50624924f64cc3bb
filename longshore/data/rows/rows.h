// The rows that a dataset gives, each by its number.
#pragma once

#include <cstdint>

#include "longshore/base/error.h"
#include "longshore/data/rows/batch.h"

namespace longshore::data {

// A file is what it should be, but no row comes of it.
struct NoRowsError : DataError {
  using DataError::DataError;
};

// Immutable: any number of threads may use it at a time.
class Rows {
 public:
  virtual ~Rows() = default;

  virtual int64_t count() const = 0;

  // Writes row `index` < count() into a row that is padding. At least one target is trained, but
  // with Answers::of_others.
  virtual void read(int64_t index, const Row& into) const = 0;
};

}  // namespace longshore::data
