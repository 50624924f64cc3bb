// A QuantizedMatrix says how a matrix lies in memory in few bits: a code for each number, and
// scales that blocks of them share. All of it is one range of bytes: codes, scales, and what
// scales have where they are codes themselves.
//
//   nf4, fp4  4 bits, a scale for each `block` numbers of the whole tensor, across rows: float32,
//   or
//             with nested scales a code in 8 bits of what is left of it without the mean, relative
//             to a scale for each 256 of those ("double quantization"). As bitsandbytes has them
//             (Dettmers et al. 2023, arXiv 2305.14314): the first of two numbers in the upper bits
//   mxfp4     4 bits, a power of two for each 32 numbers of a row (Open Compute Project 2023,
//             Microscaling Formats 1.0): the first of two numbers in the lower bits
//   int8      8 bits, a scale for each row: the largest magnitude, which is 127 (Dettmers et al.
//             2022, arXiv 2208.07339)
//   fp8       8 bits (e4m3), a scale for each square of 128 x 128 (DeepSeek-AI 2024,
//             arXiv 2412.19437)
//   bfloat16, float32   the numbers themselves
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longshore {

enum class QuantizedFormat : uint8_t { float32, bfloat16, fp8, int8, nf4, fp4, mxfp4 };

const char* name(QuantizedFormat format);  // "nf4"
constexpr bool has_4_bits(QuantizedFormat format) {
  return format == QuantizedFormat::nf4 || format == QuantizedFormat::fp4 ||
         format == QuantizedFormat::mxfp4;
}

// What numbers are rounded to when they have been multiplied by their scale.
enum class RoundedTo : uint8_t { float32, bfloat16, float16 };

struct QuantizedMatrix {
  QuantizedFormat format = QuantizedFormat::nf4;
  int64_t rows = 0, columns = 0;
  // Which row of the tensor the first is. Scales are of blocks of the tensor: the first and the
  // last may be of others as well.
  int64_t first_row = 0;
  RoundedTo rounded_to = RoundedTo::float32;
  int64_t block = 64;              // nf4, fp4: a power of two, at least 2
  bool has_nested_scales = false;  // nf4, fp4

  bool operator==(const QuantizedMatrix&) const = default;

  constexpr int64_t count() const { return rows * columns; }
  constexpr int64_t first() const { return first_row * columns; }  // number of the tensor
};

inline constexpr int64_t kNestedBlock = 256;  // codes of scales that share a scale
inline constexpr int64_t kMxfp4Block = 32;
inline constexpr int64_t kFp8Block = 128;  // rows and columns

// Where the parts of a matrix are, in bytes from its start. Parts that it has not are empty.
struct QuantizedParts {
  struct Part {
    int64_t offset = 0, bytes = 0;
  };

  Part codes, scales;
  Part nested_scales;  // float32
  Part nested_codes;   // float32 [256]: what the codes of scales stand for
  Part nested_mean;    // float32 [1]
  int64_t bytes = 0;   // of all, a multiple of 64
};

// Of a matrix that takes part of its tensor in blocks, each part has what the tensor's parts have
// for these: a copy of a range of theirs.
QuantizedParts parts_of(const QuantizedMatrix& matrix);

// The first and the last-but-one block that the matrix has numbers of: of its tensor's for nf4 and
// fp4 in numbers, for fp8 in rows.
struct BlockRange {
  int64_t first = 0, end = 0;

  int64_t count() const { return end - first; }
};
BlockRange blocks_of(const QuantizedMatrix& matrix);
// Of the codes of these blocks' scales, those that share a scale.
BlockRange nested_blocks_of(const QuantizedMatrix& matrix);

}  // namespace longshore
