#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "longshore/models/ops/kernels/onednn_matmul.h"
#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy_chunks.h"

namespace longshore::models {
namespace {

LONGSHORE_INLINE float largest_of(const float* logits, int64_t v) {
  float largest = logits[0];
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < v; ++i) largest = logits[i] > largest ? logits[i] : largest;
  return largest;
}

// The logits of a token's targets, as far as it has them.
struct AtTargets {
  std::array<float, kMaxTargets> logits;
};

LONGSHORE_INLINE void losses_of(const CrossEntropyRowsArguments& a, int64_t row, float log_sum_exp,
                                const AtTargets& at) {
  const int64_t k = a.targets_of_row;
  const int32_t* targets = a.targets + row * k;
  for (int64_t i = 0; i < k; ++i)
    a.losses[row * k + i] = targets[i] == kIgnoredTarget ? 0 : log_sum_exp - at.logits[i];
}

// A token's losses; with dlogits also sum of dloss * (softmax - one-hot), which may overwrite the
// logits. Capped logits have slopes 1 - (capped / cap)², which the gradient has as factors.
template <class T, bool kIsCapped>
LONGSHORE_INLINE void row_body(const CrossEntropyRowsArguments& a, int64_t row) {
  const int64_t v = a.vocabulary, k = a.targets_of_row;
  const int32_t* targets = a.targets + row * k;
  float* logits = a.logits + row * v;
  T* dlogits = a.dlogits ? static_cast<T*>(a.dlogits) + row * v : nullptr;
  if constexpr (kIsCapped) {
#pragma omp simd
    for (int64_t i = 0; i < v; ++i) logits[i] = soft_capped(logits[i], a.cap);
  }
  AtTargets at;
  for (int64_t i = 0; i < k; ++i)
    if (targets[i] != kIgnoredTarget) at.logits[i] = logits[targets[i]];
  const float largest = largest_of(logits, v);
  float sum = 0;
  if constexpr (kIsCapped) {  // they stay for the slopes, so the exponentials are made twice
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < v; ++i) sum += exp_fast(logits[i] - largest);
  } else {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < v; ++i) {
      const float e = exp_fast(logits[i] - largest);
      logits[i] = e;
      sum += e;
    }
  }
  losses_of(a, row, largest + std::log(sum), at);
  if (!dlogits) return;
  float scale = 0;
  for (int64_t i = 0; i < k; ++i)
    if (targets[i] != kIgnoredTarget) scale += a.dloss_of(row, i);
  const float factor = scale / sum;
  if constexpr (kIsCapped) {
#pragma omp simd
    for (int64_t i = 0; i < v; ++i)
      store(dlogits[i], exp_fast(logits[i] - largest) * factor * soft_cap_slope(logits[i], a.cap));
  } else {
#pragma omp simd
    for (int64_t i = 0; i < v; ++i) store(dlogits[i], logits[i] * factor);
  }
  for (int64_t i = 0; i < k; ++i) {
    if (targets[i] == kIgnoredTarget) continue;
    float gradient = exp_fast(at.logits[i] - largest) * factor - a.dloss_of(row, i);
    if constexpr (kIsCapped) gradient *= soft_cap_slope(at.logits[i], a.cap);
    store(dlogits[targets[i]], gradient);
  }
}

template <class T>
LONGSHORE_INLINE void rows_body(const CrossEntropyRowsArguments& a, int64_t first, int64_t last) {
  const int64_t v = a.vocabulary, k = a.targets_of_row;
  for (int64_t row = first; row < last; ++row) {
    if (a.targets[row * k] != kIgnoredTarget) {
      if (a.cap > 0)
        row_body<T, true>(a, row);
      else
        row_body<T, false>(a, row);
      continue;
    }
    std::fill_n(a.losses + row * k, k, 0.f);
    if (a.dlogits)
      for (int64_t i = 0; i < v; ++i) store(static_cast<T*>(a.dlogits)[row * v + i], 0.f);
  }
}

LONGSHORE_SIMD void run_rows(const CrossEntropyRowsArguments& a, int64_t first, int64_t last,
                             float) {
  rows_body<float>(a, first, last);
}
LONGSHORE_SIMD void run_rows(const CrossEntropyRowsArguments& a, int64_t first, int64_t last,
                             bfloat16) {
  rows_body<bfloat16>(a, first, last);
}

struct Gradients {
  const LinearCrossEntropyGradAttrs& attrs;
  void* dx;
  void* dweight;  // null when W is frozen
  void* dz;       // null where there is no z
  bool has_sum;   // dweight holds something already
};

// `z`: the number of that input; -1 where there is none.
void run_chunks(const KernelCall& call, const CrossEntropyWorkspace& l,
                const LinearCrossEntropyAttrs& attrs, int z, const Ref& loss,
                const Gradients* grads) {
  const std::vector<Type> in = types_of(call.in);
  const Type &x = call.in[0].type, &weight = call.in[1].type;
  int64_t tokens = x.shape.rows(), c = weight.shape[1];
  int64_t element = size_bytes(x.dtype);
  auto at = [&](int64_t offset) { return call.workspace.data() + offset; };
  float* logits = reinterpret_cast<float*>(at(l.logits));
  float* losses = attrs.reduction == Reduction::none ? loss.as<float>()
                                                     : reinterpret_cast<float*>(at(l.losses));
  std::span<std::byte> scratch = call.workspace.subspan(l.scratch);
  const Dtype gradient = grads ? grads->attrs.weight_gradient_dtype : Dtype::float32;

  for (int64_t begin = 0; begin < tokens; begin += l.chunk) {
    int64_t size = std::min(l.chunk, tokens - begin);
    CrossEntropyProducts p =
        cross_entropy_products(x, weight, gradient, size, z < 0 ? Into::overwrite : Into::add);
    const std::byte* x_chunk = call.in[0].as<std::byte>() + begin * c * element;
    const int64_t z_offset = z < 0 ? 0 : begin * in[z].shape.back() * element;
    if (z >= 0)
      run(frozen_products(in, z, size).logits, call.in[z].as<std::byte>() + z_offset,
          call.in[z + 1].data, logits, scratch);
    run(p.logits, x_chunk, call.in[1].data, logits, scratch);
    CrossEntropyRowsArguments rows = cross_entropy_rows(call, attrs, losses, begin, size);
    rows.logits = logits;
    if (grads) rows.dlogits = l.losses > l.dlogits ? at(l.dlogits) : at(l.logits);
    with_float_type(x.dtype, [&]<class T>(T) {
      parallel_ranges(size, [&](int64_t first, int64_t last) { run_rows(rows, first, last, T{}); });
    });
    if (!grads) continue;
    // The weight's first: dx may take x's place.
    if (grads->dweight)
      run(begin == 0 && !grads->has_sum ? p.dweight_first : p.dweight, rows.dlogits, x_chunk,
          grads->dweight, scratch);
    run(p.dx, rows.dlogits, call.in[1].data,
        static_cast<std::byte*>(grads->dx) + begin * c * element, scratch);
    if (z >= 0)
      run(frozen_products(in, z, size).dx, rows.dlogits, call.in[z + 1].data,
          static_cast<std::byte*>(grads->dz) + z_offset, scratch);
  }
  if (attrs.reduction == Reduction::none) return;
  double total = 0;
  for (int64_t i = 0; i < tokens; ++i) total += losses[i];
  *loss.as<float>() = static_cast<float>(total);
}

CrossEntropyWorkspace workspace_cpu(std::span<const Type> in,
                                    const LinearCrossEntropyGradAttrs* attrs) {
  return cross_entropy_workspace(in, attrs, kChunkOnCpu, workspace_bytes);
}

}  // namespace

int64_t linear_cross_entropy_cpu_workspace(const std::any&, std::span<const Type> in,
                                           std::span<const Type>) {
  return workspace_cpu(in, nullptr).bytes;
}

int64_t linear_cross_entropy_grad_cpu_workspace(const std::any& attrs, std::span<const Type> in,
                                                std::span<const Type>) {
  return workspace_cpu(in, &linear_cross_entropy_grad_attrs(attrs)).bytes;
}

void linear_cross_entropy_cpu(const KernelCall& call) {
  run_chunks(call, workspace_cpu(types_of(call.in), nullptr),
             linear_cross_entropy_attrs(call.attrs),
             cross_entropy_operands(call.in.size(), nullptr).z, call.out[0], nullptr);
}

void linear_cross_entropy_grad_cpu(const KernelCall& call) {
  const LinearCrossEntropyGradAttrs& attrs = linear_cross_entropy_grad_attrs(call.attrs);
  const CrossEntropyOperands at = cross_entropy_operands(call.in.size(), &attrs);
  bool has_sum = at.sum >= 0;
  CrossEntropyWorkspace l = workspace_cpu(types_of(call.in), &attrs);
  if (has_sum && call.in[at.sum].data != call.out[at.dweight].data)
    std::memcpy(call.out[at.dweight].data, call.in[at.sum].data, call.out[at.dweight].type.bytes());
  Gradients grads{.attrs = attrs,
                  .dx = call.out[0].data,
                  .dweight = at.dweight < 0 ? nullptr : call.out[at.dweight].data,
                  .dz = at.dz < 0 ? nullptr : call.out[at.dz].data,
                  .has_sum = has_sum};
  run_chunks(call, l, attrs.of_loss, at.z, call.out[1], &grads);
}

}  // namespace longshore::models
