// Any bytes as a safetensors file and as an index: refused with a DataError, or consistent, and
// then written again as a file that reads the same. Weights in few bits among its tensors likewise:
// rows that are copied have the numbers of the whole.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/safetensors/quantized_tensor.h"
#include "longshore/data/safetensors/safetensors.h"
#include "longshore/data/safetensors/safetensors_float.h"
#include "longshore/data/safetensors/safetensors_folder.h"
#include "longshore/data/safetensors/safetensors_writer.h"

namespace longshore::data {
namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::cerr << what << "\n";
  std::abort();
}

void check_tensors(std::span<const SafetensorsTensor> tensors, std::span<const std::byte> file) {
  uint64_t length;
  std::memcpy(&length, file.data(), sizeof length);
  const std::byte* next = file.data() + sizeof length + length;
  for (const SafetensorsTensor& tensor : tensors) {
    require(tensor.data.data() == next, "data is not contiguous");
    require(static_cast<int64_t>(tensor.data.size()) == tensor.bytes(), "data of another size");
    require(tensor.shape.size() <= kMaxSafetensorsRank, "rank");
    next += tensor.data.size();
    try {
      std::vector<float> values(static_cast<size_t>(tensor.element_count()));
      to_float32(tensor, values);
    } catch (const DataError&) {
    }
  }
  require(next == file.data() + file.size(), "data is not all of the file");
}

void check_quantized(const QuantizedTensor& tensor) {
  const QuantizedMatrix& whole = tensor.matrix();
  std::vector<float> values(static_cast<size_t>(whole.count()));
  tensor.to_float32(0, values);
  QuantizedMatrix part = whole;
  part.first_row = whole.rows / 3;
  part.rows = (whole.rows + 1) / 2;
  std::vector<std::byte> memory(static_cast<size_t>(parts_of(part).bytes));
  tensor.copy(part, [&](int64_t offset, std::span<const std::byte> from) {
    require(offset >= 0 && offset + std::ssize(from) <= std::ssize(memory), "beyond the parts");
    std::ranges::copy(from, memory.begin() + offset);
  });
  std::vector<float> copied(static_cast<size_t>(part.count()));
  dequantize(part, view_of(part, memory.data()), 0, copied);
  require(std::equal(copied.begin(), copied.end(), values.begin() + part.first()),
          "copied rows have other numbers");
}

void check_quantized(std::span<const SafetensorsTensor> tensors) {
  std::map<std::string, const SafetensorsTensor*, std::less<>> by_name;
  for (const SafetensorsTensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  const auto find = [&](std::string_view name) {
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
  };
  for (const SafetensorsTensor& tensor : tensors) {
    try {
      if (const auto names = quantized_names(tensor.name, find))
        check_quantized(QuantizedTensor(*names, find));
    } catch (const DataError&) {
    }
  }
}

void check_rewriting(std::span<const SafetensorsTensor> tensors) {
  static const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("safetensors_fuzz-" + std::to_string(getpid()));
  SafetensorsWriter writer(path, {tensors.begin(), tensors.end()});
  for (const SafetensorsTensor& tensor : tensors) writer.append(tensor.name, tensor.data);
  writer.finish();
  {
    const SafetensorsFile again(path);
    require(
        std::equal(tensors.begin(), tensors.end(), again.tensors().begin(), again.tensors().end(),
                   [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
                     return static_cast<const SafetensorsInfo&>(a) == b &&
                            std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end());
                   }),
        "written again it reads otherwise");
  }
  std::filesystem::remove(path);
}

void check_file(std::span<const std::byte> file) {
  try {
    const std::vector<SafetensorsTensor> tensors = parse_safetensors(file);
    check_tensors(tensors, file);
    check_quantized(tensors);
    check_rewriting(tensors);
  } catch (const DataError&) {
  }
}

void check_index(std::string_view text) {
  try {
    for (const auto& [tensor, file] : parse_safetensors_index(text))
      require(std::filesystem::path(file).filename() == file && file != "." && file != "..",
              "file outside the folder");
  } catch (const DataError&) {
  }
}

}  // namespace
}  // namespace longshore::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(data, size);
  longshore::data::check_file(std::as_bytes(bytes));
  longshore::data::check_index({reinterpret_cast<const char*>(data), size});
  return 0;
}
