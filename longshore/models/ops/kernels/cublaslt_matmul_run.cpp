// cuBLASLt's descriptions and algorithms, found once per product and device and kept.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <bit>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "longshore/base/error.h"
#include "longshore/models/ops/kernels/cublaslt_matmul.h"
#include "longshore/models/ops/kernels/current_gpu.h"
#include "longshore/models/ops/kernels/loaded_library.h"
#include "longshore/models/ops/kernels/made_once.h"

namespace longshore::models {
namespace {

// --- the library

struct Library {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetStatusString) status_text;
  decltype(&cublasLtMatmulDescCreate) make_operation;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation;
  decltype(&cublasLtMatrixLayoutCreate) make_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceCreate) make_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithms;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) get_attribute;
  decltype(&cublasLtMatmul) multiply;
};

Library load() {
  void* loaded = loaded_library("libcublasLt.so.13");
  auto find = [&]<class Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(loaded, name));
    if (!function) throw Error(std::string("cuBLASLt: the library has no ") + name);
  };
  Library library{};
  find(library.create, "cublasLtCreate");
  find(library.status_text, "cublasLtGetStatusString");
  find(library.make_operation, "cublasLtMatmulDescCreate");
  find(library.set_operation, "cublasLtMatmulDescSetAttribute");
  find(library.make_layout, "cublasLtMatrixLayoutCreate");
  find(library.set_layout, "cublasLtMatrixLayoutSetAttribute");
  find(library.make_preference, "cublasLtMatmulPreferenceCreate");
  find(library.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  find(library.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  find(library.find_algorithms, "cublasLtMatmulAlgoGetHeuristic");
  find(library.get_attribute, "cublasLtMatmulAlgoConfigGetAttribute");
  find(library.multiply, "cublasLtMatmul");
  return library;
}

const Library& library() {
  static const Library library = load();
  return library;
}

std::string text(const Matmuls& several) {
  const Matmul& p = several.matmul;
  return (several.count == 1 ? "product of " : std::to_string(several.count) + " products of ") +
         std::to_string(p.m) + "x" + std::to_string(p.k) + "x" + std::to_string(p.n) + " in " +
         name(p.ab) + " into " + name(p.c);
}

void check(cublasStatus_t status, const std::string& what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error("cuBLASLt: " + what + ": " + library().status_text(status) +
                "; `backend: cuda_composed` runs ATen's products instead");
}

// A thread's own on that device, never destroyed: when a program ends, the driver may be gone
// before its statics.
cublasLtHandle_t handle_of(int device) {
  thread_local std::map<int, cublasLtHandle_t> handles;
  cublasLtHandle_t& handle = handles[device];
  if (!handle) check(library().create(&handle), "making a handle");
  return handle;
}

// --- algorithms

// What plans align slices of memory to at least: that of all operands is known up to this.
constexpr uint32_t kMaxAlignment = 128;

struct Key {
  Matmuls matmuls;
  uint32_t alignment;  // of all operands, in bytes
  int device;

  auto operator<=>(const Key&) const = default;
};

struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, out = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

cudaDataType_t data_type(Dtype dtype) {
  if (dtype == Dtype::float32) return CUDA_R_32F;
  if (dtype == Dtype::bfloat16) return CUDA_R_16BF;
  throw InternalError(std::string("cuBLASLt is not asked for products of ") + name(dtype));
}

class Preference {
 public:
  Preference() { check(library().make_preference(&preference_), "making a preference"); }
  ~Preference() { library().destroy_preference(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  template <class Value>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
    check(library().set_preference(preference_, attribute, &value, sizeof value),
          "setting a preference");
  }
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

// Which algorithms may split k: those that add the parts up in float32. None where the last 64 of k
// are not whole, since some of Hopper's and Blackwell's leave that rest out (seen in 12.8 to 13.2;
// https://github.com/facebookexperimental/triton/pull/2767).
uint32_t reductions(const Matmul& p) {
  return p.k % 64 == 0 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
}

bool has_quick_tile(const cublasLtMatmulAlgo_t& algorithm) {
  cublasLtMatmulTile_t tile{};
  size_t written = 0;
  check(library().get_attribute(&algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile,
                                &written),
        "asking for an algorithm's tile");
  return tile == CUBLASLT_MATMUL_TILE_128x256 || tile == CUBLASLT_MATMUL_TILE_256x128;
}

// The first, but on Hopper and in bfloat16 the first with tiles of 128x256 where C has many.
// cuBLASLt 13 offers 192x192 and 320x128 before it, which a GPU at its power limit, as it is in
// training, computes more slowly: an H200 by 1 to 6 % of what large products take, or as quickly.
const cublasLtMatmulHeuristicResult_t& chosen(
    std::span<const cublasLtMatmulHeuristicResult_t> offered, const Key& key) {
  constexpr float kManyWaves = 8;  // of tiles, so that the last wave costs little
  if (key.matmuls.matmul.ab == Dtype::bfloat16 && compute_capability(key.device) == 90)
    for (const cublasLtMatmulHeuristicResult_t& result : offered)
      if (result.state == CUBLAS_STATUS_SUCCESS && result.wavesCount >= kManyWaves &&
          has_quick_tile(result.algo))
        return result;
  return offered[0];
}

std::unique_ptr<const Plan> make(const Key& key) {
  const Matmul& p = key.matmuls.matmul;
  const std::string what = text(key.matmuls);
  const ColumnMajorProduct product = column_major(key.matmuls);
  auto plan = std::make_unique<Plan>();
  check(library().make_operation(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), what);
  auto transpose = [&](cublasLtMatmulDescAttributes_t attribute, bool is_transposed) {
    const int32_t operation = is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(library().set_operation(plan->operation, attribute, &operation, sizeof operation), what);
  };
  transpose(CUBLASLT_MATMUL_DESC_TRANSA, product.transpose_first);
  transpose(CUBLASLT_MATMUL_DESC_TRANSB, product.transpose_second);
  auto lay_out = [&](cublasLtMatrixLayout_t& layout, const ColumnMajor& matrix, Dtype dtype) {
    check(library().make_layout(&layout, data_type(dtype), static_cast<uint64_t>(matrix.rows),
                                static_cast<uint64_t>(matrix.columns), matrix.stride),
          what);
    const int32_t count = static_cast<int32_t>(key.matmuls.count);
    check(library().set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
          what);
    check(library().set_layout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.next,
                               sizeof matrix.next),
          what);
  };
  lay_out(plan->first, product.first, p.ab);
  lay_out(plan->second, product.second, p.ab);
  lay_out(plan->out, product.out, p.c);

  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                 static_cast<uint64_t>(cublaslt_workspace_bytes(key.matmuls)));
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions(p));
  for (auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    preference.set(attribute, key.alignment);
  std::array<cublasLtMatmulHeuristicResult_t, 8> offered{};
  int found = 0;
  check(library().find_algorithms(handle_of(key.device), plan->operation, plan->first, plan->second,
                                  plan->out, plan->out, preference.get(),
                                  static_cast<int>(offered.size()), offered.data(), &found),
        what);
  if (found == 0) check(CUBLAS_STATUS_NOT_SUPPORTED, what);
  const cublasLtMatmulHeuristicResult_t& best =
      chosen(std::span(offered).first(static_cast<size_t>(found)), key);
  check(best.state, what);
  plan->algorithm = best.algo;
  return plan;
}

}  // namespace

void run_cublaslt(const Matmuls& matmuls, const void* a, const void* b, const void* sum, void* c,
                  std::span<std::byte> workspace, void* stream) {
  const bool adds = matmuls.matmul.into == Into::add;
  const void* added = adds ? sum : c;  // which is not read where nothing is added
  uintptr_t addresses = kMaxAlignment;
  for (const void* operand : {a, b, added, static_cast<const void*>(c)})
    addresses |= reinterpret_cast<uintptr_t>(operand);
  const int device = current_device();
  const Key key{matmuls, uint32_t{1} << std::countr_zero(addresses), device};
  const Plan& plan = made_once<Plan>(key, [&] { return make(key); });
  const float one = 1, beta = adds ? 1 : 0;
  check(library().multiply(handle_of(device), plan.operation, &one, b, plan.first, a, plan.second,
                           &beta, added, plan.out, c, plan.out, &plan.algorithm, workspace.data(),
                           workspace.size(), static_cast<cudaStream_t>(stream)),
        text(matmuls));
}

}  // namespace longshore::models
