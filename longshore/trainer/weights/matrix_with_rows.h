// A MatrixWithRows is a matrix of a file with rows of tokens added.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "longshore/data/safetensors/safetensors.h"
#include "longshore/data/safetensors/safetensors_float.h"
#include "longshore/trainer/config/added_rows.h"

namespace longshore::trainer {

// Added rows, and those between the file's last and the first of them, are the mean of all rows of
// the file, summed up in float64. It is made once it is read.
class MatrixWithRows {
 public:
  // `matrix` [V,C] outlives it. Throws a DataError, which names the tensor, where it is no matrix
  // of floating-point numbers.
  MatrixWithRows(const data::SafetensorsTensor& matrix, const AddedRows& added);

  data::SafetensorsInfo info() const;
  // As data::to_float32 does it. Any number of threads may.
  data::NonFinite read(int64_t first, std::span<float> to, int64_t step) const;

 private:
  struct Mean {
    std::once_flag made;
    std::vector<float> row;
  };

  const std::vector<float>& mean() const;

  const data::SafetensorsTensor* matrix_;
  int64_t first_, end_;  // of the rows
  std::unique_ptr<Mean> mean_ = std::make_unique<Mean>();
};

}  // namespace longshore::trainer
