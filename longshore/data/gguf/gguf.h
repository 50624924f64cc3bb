// Models in one file, in the format that llama.cpp reads
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Little-endian:
//
//   0    4 bytes         "GGUF"
//   4    uint32          3, the version
//   8    uint64 uint64   how many tensors and entries follow
//   24   entries         key, uint32 type of the value, value
//        tensors         name, uint32 dimensions, uint64 size of each, innermost first, uint32
//        type,
//                        uint64 offset of its data
//        zeros           up to a multiple of 32
//        data            each from a multiple of 32 on; offsets count from here
//
// Texts are a uint64, their bytes, and these. Lists are a uint32 type, a uint64 and the values.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace longshore::data {

// Of a tensor's numbers.
enum class GgufType : uint8_t {
  float32,
  float16,
  bfloat16,
  q8_0,  // blocks of 32 numbers of 8 bits, with a float16 for each block
};

const char* name(GgufType type);  // "F32", "Q8_0"
// Numbers that are stored together: rows are a multiple of it.
int64_t block_elements(GgufType type);
int64_t block_bytes(GgufType type);

using GgufValue = std::variant<uint32_t, int32_t, float, bool, std::string, std::vector<int32_t>,
                               std::vector<float>, std::vector<bool>, std::vector<std::string>>;

struct GgufEntry {
  std::string key;
  GgufValue value;
};

struct GgufTensorInfo {
  std::string name;
  GgufType type = GgufType::float32;
  std::vector<int64_t> shape;  // the outermost first, as everywhere but in the file

  // Throw a DataError when the number does not fit in int64_t.
  int64_t element_count() const;
  int64_t bytes() const;
  bool operator==(const GgufTensorInfo&) const = default;
};

inline constexpr int64_t kGgufAlignment = 32;
// What llama.cpp has room for.
inline constexpr size_t kMaxGgufNameBytes = 63, kMaxGgufRank = 4;

}  // namespace longshore::data
