// The CPU's kernel of dequantize.
#pragma once

#include "models/ir/op.h"

namespace longshore::models {

void run_dequantize_cpu(const KernelCall& call);

}  // namespace longshore::models
