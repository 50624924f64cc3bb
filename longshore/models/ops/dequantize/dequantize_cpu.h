// The CPU's kernel of dequantize.
#pragma once

#include "longshore/base/bfloat16.h"
#include "longshore/models/ops/dequantize/dequantize_kernels.h"

namespace longshore::models {

void run_dequantize_cpu(const KernelCall& call);
void run_dequantize_transposed_cpu(const DequantizeArguments& a);

// Numbers [first, end) of a matrix in rows, to `to` on, by one thread.
void dequantize_numbers(const DequantizeArguments& a, const QuantizedView& view, int64_t first,
                        int64_t end, float* to);
void dequantize_numbers(const DequantizeArguments& a, const QuantizedView& view, int64_t first,
                        int64_t end, bfloat16* to);

}  // namespace longshore::models
