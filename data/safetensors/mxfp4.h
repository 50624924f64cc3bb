// Numbers in MXFP4 (Open Compute Project 2023, Microscaling Formats 1.0), in two tensors as gpt-oss
// has them: blocks of 32 numbers of four bits, and a power of two for each block.
#pragma once

#include <cstdint>
#include <span>

#include "data/safetensors/safetensors.h"
#include "data/safetensors/safetensors_float.h"

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

  // Elements of [E,K,N] from `first` on, `step` from one to the next. A scale of 255 is NaN.
  NonFinite to_float32(int64_t first, std::span<float> to, int64_t step = 1) const;

 private:
  SafetensorsInfo info_;
  std::span<const std::byte> blocks_, scales_;
};

}  // namespace longshore::data
