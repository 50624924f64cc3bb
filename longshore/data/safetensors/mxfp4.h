// Numbers in MXFP4 (Open Compute Project 2023, Microscaling Formats 1.0), in two tensors as gpt-oss
// has them: blocks of 32 numbers of four bits, and a power of two for each block.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "longshore/base/quantization/quantize.h"
#include "longshore/data/safetensors/safetensors.h"
#include "longshore/data/safetensors/safetensors_float.h"

namespace longshore::data {

// What stands behind the name of the tensor that the two are: "NAME_blocks" uint8 [E,N,K/32,16] and
// "NAME_scales" uint8 [E,N,K/32].
inline constexpr const char *kMxfp4Blocks = "_blocks", *kMxfp4Scales = "_scales";

class Mxfp4Tensor {
 public:
  // Throws a DataError that names the tensor where the two are not so, or do not fit.
  Mxfp4Tensor(const SafetensorsTensor& blocks, const SafetensorsTensor& scales);

  // The numbers as the model has them, [E,K,N]. All are exact in bfloat16 but for the ends of what
  // that can hold.
  const SafetensorsInfo& info() const { return info_; }

  // Of each expert [N,K]. All are rounded to bfloat16.
  const QuantizedMatrix& matrix() const { return matrix_; }

  // Rows of an expert's matrix, `step` from one to the next: codes and scales as parts_of(part)
  // places them, of which `part` is as many rows as it has. Throws a DataError that names the
  // tensor for a scale that is NaN, or by which the largest number is beyond bfloat16.
  struct Rows {
    int64_t matrix = 0, first = 0, step = 1;
  };
  void copy(const Rows& rows, const QuantizedMatrix& part, const WriteBytes& write) const;

  // Throws what copy() throws of a scale, for any there is.
  void require_finite_scales() const { require_finite(scales_); }

  // Elements of [E,K,N] from `first` on, `step` from one to the next. A scale of 255 is NaN.
  NonFinite to_float32(int64_t first, std::span<float> to, int64_t step = 1) const;

 private:
  void require_finite(std::span<const std::byte> scales) const;

  SafetensorsInfo info_;
  QuantizedMatrix matrix_;
  std::string scales_name_;
  std::span<const std::byte> blocks_, scales_;
};

}  // namespace longshore::data
