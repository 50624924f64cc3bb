// cuBLASLt's products on the emulated GPU: column-major, strided and batched. An algorithm that may
// split k leaves out what follows its last whole 64, as some of the real ones do.
#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <cublasLt.h>

#include <cstring>
#include <string>

#include "tests/emulated_gpu/streams.h"

using longshore::emulated::Device;
using longshore::emulated::stream_of;

namespace {

struct Operation {
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
};

struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t count = 1;
  int64_t next = 0;
};

struct Preference {
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};

template <class Handle>
Operation& operation(Handle handle) {
  return *reinterpret_cast<Operation*>(handle);
}
const Layout& layout(cublasLtMatrixLayout_t handle) { return *reinterpret_cast<Layout*>(handle); }

at::Tensor matrices(const void* data, const Layout& l) {
  const auto type = l.type == CUDA_R_16BF ? at::kBFloat16 : at::kFloat;
  return at::from_blob(const_cast<void*>(data),
                       {l.count, static_cast<int64_t>(l.rows), static_cast<int64_t>(l.columns)},
                       {l.next, 1, l.leading}, at::TensorOptions(type));
}

at::Tensor operand(const void* data, const Layout& l, int32_t transpose) {
  const at::Tensor stored = matrices(data, l).to(at::kFloat);
  return transpose == CUBLAS_OP_T ? stored.transpose(1, 2) : stored;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error of the emulated GPU"; }
size_t cublasLtGetVersion() { return 130000; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t,
                                        cudaDataType_t) {
  *handle = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  if (bytes != sizeof(int32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
    std::memcpy(&operation(handle).transpose_a, value, bytes);
  else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
    std::memcpy(&operation(handle).transpose_b, value, bytes);
  else
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *handle = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  auto& layout = *reinterpret_cast<Layout*>(handle);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == sizeof layout.count)
    std::memcpy(&layout.count, value, bytes);
  else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == sizeof layout.next)
    std::memcpy(&layout.next, value, bytes);
  else
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  *handle = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  auto& preference = *reinterpret_cast<Preference*>(handle);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    if (bytes != sizeof preference.reductions) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&preference.reductions, value, bytes);
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  delete reinterpret_cast<Preference*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  *found = most > 0;
  if (most > 0) {
    results[0] = {};
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].algo.data[0] = reinterpret_cast<Preference*>(preference)->reductions;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t*,
                                                    cublasLtMatmulAlgoConfigAttributes_t,
                                                    void* value, size_t bytes, size_t* written) {
  std::memset(value, 0, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void*, size_t,
                              cudaStream_t stream) {
  const Operation o = operation(description);
  const Layout of_a = layout(a_layout), of_b = layout(b_layout), of_c = layout(c_layout),
               of_d = layout(d_layout);
  const float scale = *static_cast<const float*>(alpha), kept = *static_cast<const float*>(beta);
  const int64_t k = static_cast<int64_t>(o.transpose_a == CUBLAS_OP_T ? of_a.rows : of_a.columns);
  const bool splits = algorithm->data[0] != CUBLASLT_REDUCTION_SCHEME_NONE;
  const int64_t summed = splits ? k / 64 * 64 : k;
  Device::get().enqueue(stream_of(stream), [=] {
    at::Tensor product = at::matmul(operand(a, of_a, o.transpose_a).narrow(2, 0, summed),
                                    operand(b, of_b, o.transpose_b).narrow(1, 0, summed))
                             .mul_(scale);
    if (kept != 0) product.add_(matrices(c, of_c).to(at::kFloat), kept);
    matrices(d, of_d).copy_(product);
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
