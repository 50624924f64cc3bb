// The parts of a weight in few bits, where they lie in a file.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/base/quantization/dequantize.h"
#include "longshore/base/quantization/quantized_matrix.h"
#include "longshore/data/safetensors/quantized_names.h"
#include "longshore/data/safetensors/safetensors.h"

namespace longshore::data {

// The tensor of a name; nullptr where there is none. Tensors stay where they are.
using FindTensor = std::function<const SafetensorsTensor*(std::string_view name)>;

struct QuantizedData {
  SafetensorsInfo info;  // of the numbers, [out,in]
  QuantizedMatrix matrix;
  std::span<const std::byte> codes;
  std::string scales_name;
  std::span<const std::byte> scales_in_file;  // bytes, or aligned float32
  std::vector<float> scales_here;             // instead, where the file has them otherwise
  std::vector<float> nested_scales, nested_codes;
  float nested_mean = 0;

  std::span<const std::byte> scales() const;  // aligned, as a QuantizedView wants them
  QuantizedView view() const;
};

// Throws a DataError that names the tensor which is not there, or is not what the format and the
// others want. Of values it checks the code books and nested scales, which are few.
QuantizedData read_quantized_data(const QuantizedNames& names, const FindTensor& find);

}  // namespace longshore::data
