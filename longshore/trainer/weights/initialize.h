// initialize() sets starting values: each parameter is a pure function of (seed, its name),
// whatever the bucket or layer it lies in; what optimizers keep is zero.
#pragma once

#include <cstdint>
#include <span>

#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/trainer/weights/quantize_parameter.h"

namespace longshore::trainer {

// The values that the parameter's Init says, which is not row_norms: a pure function of the seed
// and its name.
void initial_values(const offload::Parameter& parameter, uint64_t seed, int64_t first,
                    std::span<float> values);

// Which copies of buckets are written: all but gradients, or the weights alone that layers read.
enum class Copies : uint8_t { all, compute };

// Writes what this device holds of every bucket's copies where they live, an optimizer's states
// zero; gradients are never written. What is quantized gets its codes by quantize_parameter().
// Arguments are allocated where they are missing. Beside them the host holds a few MiB for each
// thread, and what scales take that are quantized too. Throws the first of what `fill` throws.
// Progress goes by the name of `what` is done.
void write_parameters(const offload::ParameterLayout& layout, const FillParameter& fill,
                      offload::Arguments& arguments, Copies copies = Copies::all,
                      const CopyMatrix& copy = nullptr, const char* what = "reading weights");

void initialize(const offload::ParameterLayout& layout, uint64_t seed,
                offload::Arguments& arguments);

}  // namespace longshore::trainer
