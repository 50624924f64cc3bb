#include "longshore/models/ops/grouped_linear/grouped_linear_aten.h"

#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/add.h>

#include "longshore/models/ops/grouped_linear/grouped_linear_kernels.h"
#include "longshore/models/ops/kernels/aten.h"
#ifdef LONGSHORE_CUDA
#include "longshore/models/ops/kernels/current_gpu.h"
#endif

namespace longshore::models {
namespace {

// Its copies into fast memory want rows of whole 16 bytes, and one block prepares a thread for each
// expert. There is no product of it for gradients of weights: it would round them to bfloat16.
bool may_serve(Dtype dtype, int64_t n, int64_t k, int64_t experts) {
  return dtype == Dtype::bfloat16 && n % 8 == 0 && k % 8 == 0 && experts < 1024;
}

}  // namespace

// What it gives before that is copied or added, and descriptions of its copies, some hundred bytes
// for each expert and multiprocessor.
int64_t grouped_rows_workspace(Dtype dtype, int64_t rows, int64_t n, int64_t k, int64_t experts) {
  if (!may_serve(dtype, n, k, experts)) return 0;
  return allocated_bytes(rows * n * size_bytes(dtype)) + (1 << 20);
}

#ifdef LONGSHORE_CUDA

// Elsewhere ATen has a product for each expert, of whose rows it tells the host. That ours, which
// has no wgmma or tcgen05, is the slower one here for all numbers of rows is to be measured.
bool aten_serves_here(const GroupedRowsArguments& a) {
  const int generation = compute_capability(current_device()) / 10;
  return (generation == 9 || generation == 10) && may_serve(a.dtype, a.n, a.k, a.experts) &&
         all_aligned({a.a, a.b});
}

void run_grouped_rows(const KernelCall& call, GroupedRowsOf arguments) {
  const GroupedRowsArguments a = arguments(call);
  if (aten_serves_here(a))
    run_grouped_rows_by_aten(call, arguments);
  else
    launch_grouped_rows(a, call.stream);
}

void run_grouped_rows_by_aten(const KernelCall& call, GroupedRowsOf arguments) {
  const GroupedRowsArguments a = arguments(call);
  at::Tensor b = tensor(call, call.in[1]), out = tensor(call, call.out[0]);
  if (a.b_layout == Layout::transposed) b = b.transpose(1, 2);
  const at::Tensor product = at::_grouped_mm(tensor(call, call.in[0]), b, tensor(call, call.in[2]));
  if (a.so_far)
    at::add_out(out, product, tensor(call, call.in[3]));
  else
    out.copy_(product);
}

#endif

}  // namespace longshore::models
