// quantize_parameter() gives the codes and scales of a quantized parameter's numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "longshore/base/quantization/quantize.h"
#include "longshore/offload/lowering/parameter_layout.h"

namespace longshore::trainer {

// Gives values of a parameter, from the tensor's element `first` on. Called by several threads at
// once. Of a quantized parameter these are its numbers; of one that has rows of a tensor together
// with others it gives theirs too, which lie before its first and behind its last.
using FillParameter =
    std::function<void(const offload::Parameter&, int64_t first, std::span<float> values)>;

// Gives matrix `number` of a quantized parameter as files have it, if they have it so: its parts,
// from the matrix's start. Returns whether they do.
using CopyMatrix =
    std::function<bool(const offload::Parameter&, int64_t number, const WriteBytes& write)>;

// The matrices that a quantized parameter has one after the other.
int64_t matrices_of(const offload::Parameter& parameter);
// Of the tensor that checkpoints have, with the rows of other parameters of the bucket.
int64_t rows_of_tensor(const offload::Bucket& bucket, const offload::Parameter& parameter);

// Matrix `number` of the parameter, as `copy` gives it or made of its numbers; `write` takes bytes
// from the parameter's start on. Numbers are rounded to the dtype that is computed in first, as if
// that had been loaded. Throws DataError for one that is not finite.
void quantize_parameter(const offload::Parameter& parameter, int64_t tensor_rows, int64_t number,
                        const FillParameter& fill, const WriteBytes& write,
                        const CopyMatrix& copy = nullptr);

}  // namespace longshore::trainer
