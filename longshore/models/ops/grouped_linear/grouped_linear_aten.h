// ATen's product of experts' rows, by CUTLASS on compute capability 9 and 10.
#pragma once

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/grouped_linear/grouped_tiles.h"

namespace longshore::models {

using GroupedRowsOf = GroupedRowsArguments (*)(const KernelCall& call);

// Of a product of rows by n columns and k terms, where it may be ATen's on some GPU; 0 elsewhere.
int64_t grouped_rows_workspace(Dtype dtype, int64_t rows, int64_t n, int64_t k, int64_t experts);

// In builds with CUDA. `run_grouped_rows` takes ATen's where it serves and else our own.
bool aten_serves_here(const GroupedRowsArguments& arguments);
void run_grouped_rows(const KernelCall& call, GroupedRowsOf arguments);
void run_grouped_rows_by_aten(const KernelCall& call, GroupedRowsOf arguments);

}  // namespace longshore::models
