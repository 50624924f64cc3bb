// quantize() gives a matrix the codes and scales that are nearest to its numbers, always the same
// for the same numbers.
#pragma once

#include <functional>
#include <span>

#include "longshore/base/quantization/quantized_matrix.h"

namespace longshore {

// Gives numbers of the whole tensor in rows, from `first` on.
using ReadNumbers = std::function<void(int64_t first, std::span<float> to)>;
// Takes bytes of the matrix's parts, as parts_of() places them.
using WriteBytes = std::function<void(int64_t offset, std::span<const std::byte> from)>;

// `tensor_rows`: of the tensor that the matrix is rows of; nested scales are of all of it. Reads
// and writes some MiB at a time; each byte of a part is written once. Codes are those of
// bitsandbytes for nf4, fp4 (where that rounds in different ways by the device: zeros have code 0,
// what is as near to two codes goes by the thresholds of its CUDA code) and int8, those of
// transformers for fp8; powers of two of mxfp4 are those of OCP's specification, ties to even.
// Numbers are finite.
void quantize(const QuantizedMatrix& matrix, int64_t tensor_rows, const ReadNumbers& read,
              const WriteBytes& write);

// What codes of nested scales stand for, as bitsandbytes' dynamic map has it (Dettmers et al. 2021,
// arXiv 2110.02861): in ascending order.
std::span<const float, 256> nested_codes();

}  // namespace longshore
