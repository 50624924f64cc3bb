// Tensors in one file, in Hugging Face's safetensors format
// (https://github.com/huggingface/safetensors, "Format"). Little-endian:
//
//   0      uint64        n, bytes of the header, at most 100,000,000
//   8      n bytes       JSON: {NAME: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}};
//                        also "__metadata__": {STRING: STRING}; spaces may follow
//   8 + n  to the end    the tensors' data, row-major, without gaps; offsets count from here
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/files/file_mapping.h"

namespace longshore::data {

// In the order of the safetensors library, which sorts tensors by it (see sorted_as_safetensors).
enum class SafetensorsDtype : uint8_t {
  boolean,
  uint8,
  int8,
  float8_e5m2,
  float8_e4m3,
  float8_e8m0,
  int16,
  float16,
  bfloat16,
  int32,
  float32,
  float64,
  int64,
};

int64_t size_bytes(SafetensorsDtype dtype);
const char* name(SafetensorsDtype dtype);  // as in the file: "BOOL", "BF16"
// Whether a tensor of the dtype is a weight by itself: one in 8 bits has scales beside it.
bool is_floating_point(SafetensorsDtype dtype);
std::string shape_text(std::span<const int64_t> shape);  // "[2,3]"

struct SafetensorsInfo {
  std::string name;
  SafetensorsDtype dtype = SafetensorsDtype::float32;
  std::vector<int64_t> shape;  // empty for a scalar

  // Throw a DataError when the number does not fit in int64_t.
  int64_t element_count() const;
  int64_t bytes() const;
  bool operator==(const SafetensorsInfo&) const = default;
};

struct SafetensorsTensor : SafetensorsInfo {
  std::span<const std::byte> data;  // bytes() of them; not necessarily aligned
};

inline constexpr size_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr size_t kMaxSafetensorsRank = 8;
// Bounds what a hostile header costs; real files have thousands.
inline constexpr size_t kMaxSafetensorsTensors = size_t{1} << 20;

// The tensors of a whole file, in the order of their data, referring to `file`. Throws a DataError
// unless all of the file is as the format says; it names the tensor, but not the file.
std::vector<SafetensorsTensor> parse_safetensors(std::span<const std::byte> file);

// A mapped file, checked wholly when it is opened, except for the values of the data. Errors are
// DataErrors that name the file. See FileMapping for what may happen to the file meanwhile.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }

  // In the order of their data.
  std::span<const SafetensorsTensor> tensors() const { return tensors_; }

  bool contains(std::string_view name) const { return find(name) != nullptr; }
  const SafetensorsTensor& at(std::string_view name) const;

 private:
  const SafetensorsTensor* find(std::string_view name) const;

  std::filesystem::path path_;
  FileMapping mapping_;
  std::vector<SafetensorsTensor> tensors_;
  std::vector<uint32_t> by_name_;  // indices into tensors_
};

}  // namespace longshore::data
