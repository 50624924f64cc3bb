// A matrix in few bits, in several tensors: as bitsandbytes has it in 4 bits (Dettmers et al. 2023,
// arXiv 2305.14314) and in int8 (Dettmers et al. 2022, arXiv 2208.07339), and in fp8 with a scale
// for each square of 128 x 128 (DeepSeek-AI 2024, arXiv 2412.19437). See quantized_names.h for the
// tensors.
#pragma once

#include <cstdint>
#include <span>

#include "longshore/base/quantization/quantize.h"
#include "longshore/data/safetensors/quantized_data.h"
#include "longshore/data/safetensors/safetensors_float.h"

namespace longshore::data {

class QuantizedTensor {
 public:
  // Throws a DataError that names the tensor which is not there, or does not fit the others. What
  // is found outlives it.
  QuantizedTensor(const QuantizedNames& names, const FindTensor& find)
      : data_(read_quantized_data(names, find)) {}

  // The numbers, [out,in], by the weight's name. The dtype is what they are rounded to: in 4 bits
  // that of what was quantized, else F32.
  const SafetensorsInfo& info() const { return data_.info; }

  // All of it.
  const QuantizedMatrix& matrix() const { return data_.matrix; }

  // Numbers in rows from `first` on, `step` from one to the next, as longshore::dequantize gives
  // them.
  NonFinite to_float32(int64_t first, std::span<float> to, int64_t step = 1) const;

  // Codes and scales of `part`, which is matrix() but for first_row, rows and rounded_to, as
  // parts_of(part) places them; some MiB at a time. Throws a DataError that names the tensor for
  // codes of fp8 that are NaN and for a scale by which numbers of the part are not finite.
  void copy(const QuantizedMatrix& part, const WriteBytes& write) const;

  // Throws what copy() throws of a scale, for any there is.
  void require_finite_scales() const;

 private:
  void require_part(const QuantizedMatrix& part) const;
  // Scales are counted from the whole matrix's first.
  void require_finite_scales(const QuantizedMatrix& part, int64_t first, int64_t count) const;
  void require_finite_codes(int64_t first, int64_t count) const;  // of fp8

  QuantizedData data_;
};

}  // namespace longshore::data
