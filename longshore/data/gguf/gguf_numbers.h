// Turns float32 into the numbers of a GGUF file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "longshore/data/gguf/gguf.h"

namespace longshore::data {

// Blocks of 32 numbers: a scale, which is the largest magnitude / 127 as float16, and each number
// divided by that magnitude / 127 and rounded to nearest, halves away from zero, as int8. `values`
// are a multiple of 32 and finite; the largest is at most 127 times what float16 can hold. Throws a
// DataError, which does not name the tensor, for others.
void quantize_q8_0(std::span<const float> values, std::span<std::byte> to);

// Values of a tensor one piece after the other, each as it comes, become bytes: of q8_0 whole
// blocks, what is left over waits for the next piece.
class GgufNumbers {
 public:
  GgufNumbers(std::string tensor, GgufType type) : tensor_(std::move(tensor)), type_(type) {}

  // The bytes, until the next call. Throws a DataError that names the tensor where a finite value
  // is beyond the type, and of q8_0 for one that is not finite.
  std::span<const std::byte> convert(std::span<const float> values);

 private:
  std::span<const std::byte> convert_blocks(std::span<const float> values);

  std::string tensor_;
  GgufType type_;
  std::vector<float> waiting_;
  std::vector<std::byte> bytes_;
};

}  // namespace longshore::data
