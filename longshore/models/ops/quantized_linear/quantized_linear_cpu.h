// The CPU's kernel of quantized_linear. The result does not depend on the number of threads.
#pragma once

#include <any>
#include <cstdint>
#include <span>

#include "longshore/models/ir/op.h"

namespace longshore::models {

void run_quantized_linear_cpu(const KernelCall& call);
int64_t quantized_linear_cpu_workspace(const std::any& attrs, std::span<const Type> in,
                                       std::span<const Type> out);

}  // namespace longshore::models
