#include "longshore/models/ops/kernels/cuda_group.cuh"
#include "longshore/models/ops/rows/rows_kernels.h"

namespace longshore::models {

void launch_rows(const RowsArguments& arguments, void* stream) {
  launch(arguments, CudaLauncher(stream, "rows"));
}

}  // namespace longshore::models
