// RowNorms gives the values that a new adapter's magnitudes begin with (models::Init::Kind::
// row_norms): the lengths of the rows of the matrix that the adapter is of.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/trainer/weights/quantize_parameter.h"

namespace longshore::trainer {

class RowNorms {
 public:
  // `layout` outlives it.
  explicit RowNorms(const offload::ParameterLayout& layout);

  // Those from row `first` on of the matrix whose adapter has these magnitudes; `fill` and
  // `copy` give the values of the matrix, which count as training has them: quantized, where it has
  // them so.
  void read(const offload::Parameter& magnitudes, int64_t first, const FillParameter& fill,
            std::span<float> norms, const CopyMatrix& copy = nullptr) const;

 private:
  const offload::ParameterLayout& layout_;
  std::map<std::string, offload::ParameterLayout::Location>
      matrices_;  // by their magnitudes' names
};

}  // namespace longshore::trainer
