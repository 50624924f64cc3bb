// dequantize as a composition of ATen's ops.
#pragma once

#include "longshore/models/ir/op.h"

namespace longshore::models {

void run_dequantize_composed(const KernelCall& call);
int64_t dequantize_composed_workspace(const std::any& attrs, std::span<const Type> in,
                                      std::span<const Type> out);

}  // namespace longshore::models
