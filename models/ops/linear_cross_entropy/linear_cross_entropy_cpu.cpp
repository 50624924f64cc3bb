#include <algorithm>
#include <cmath>
#include <cstring>

#include "models/ops/kernels/onednn_matmul.h"
#include "models/ops/kernels/simd.h"
#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "models/ops/linear_cross_entropy/linear_cross_entropy_chunks.h"

namespace longshore::models {
namespace {

LONGSHORE_INLINE float largest_of(const float* logits, int64_t v) {
  float largest = logits[0];
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < v; ++i) largest = logits[i] > largest ? logits[i] : largest;
  return largest;
}

// One token's loss; with dlogits also scale * (softmax - one-hot), which may overwrite the logits.
template <class T>
LONGSHORE_INLINE float token_loss(float* logits, int32_t target, T* dlogits, float scale,
                                  int64_t v) {
  float largest = largest_of(logits, v), at_target = logits[target], sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < v; ++i) {
    float e = exp_fast(logits[i] - largest);
    logits[i] = e;
    sum += e;
  }
  float loss = largest + std::log(sum) - at_target;
  if (!dlogits) return loss;
  float at_target_exp = logits[target], factor = scale / sum;
#pragma omp simd
  for (int64_t i = 0; i < v; ++i) store(dlogits[i], logits[i] * factor);
  store(dlogits[target], at_target_exp * factor - scale);
  return loss;
}

// The same of capped logits, whose slopes 1 - (capped / cap)² the gradient has as factors. The
// capped logits stay for them, so the exponentials are made twice.
template <class T>
LONGSHORE_INLINE float capped_token_loss(float* logits, int32_t target, float cap, T* dlogits,
                                         float scale, int64_t v) {
#pragma omp simd
  for (int64_t i = 0; i < v; ++i) logits[i] = soft_capped(logits[i], cap);
  float largest = largest_of(logits, v), at_target = logits[target], sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < v; ++i) sum += exp_fast(logits[i] - largest);
  float loss = largest + std::log(sum) - at_target;
  if (!dlogits) return loss;
  float factor = scale / sum;
#pragma omp simd
  for (int64_t i = 0; i < v; ++i)
    store(dlogits[i], exp_fast(logits[i] - largest) * factor * soft_cap_slope(logits[i], cap));
  store(dlogits[target],
        (exp_fast(at_target - largest) * factor - scale) * soft_cap_slope(at_target, cap));
  return loss;
}

// The losses of `rows` tokens, and their gradients. No cap: 0.
template <class T>
LONGSHORE_INLINE void cross_entropy_body(float* logits, const int32_t* targets, float cap,
                                         float* losses, T* dlogits, float scale, int64_t rows,
                                         int64_t v) {
  for (int64_t row = 0; row < rows; ++row, logits += v, dlogits += dlogits ? v : 0) {
    if (targets[row] != kIgnoredTarget) {
      losses[row] = cap > 0 ? capped_token_loss(logits, targets[row], cap, dlogits, scale, v)
                            : token_loss(logits, targets[row], dlogits, scale, v);
      continue;
    }
    losses[row] = 0;
    if (dlogits)
      for (int64_t i = 0; i < v; ++i) store(dlogits[i], 0.f);
  }
}

LONGSHORE_SIMD void cross_entropy_rows(float* logits, const int32_t* targets, float cap,
                                       float* losses, float* dlogits, float scale, int64_t rows,
                                       int64_t v) {
  cross_entropy_body(logits, targets, cap, losses, dlogits, scale, rows, v);
}
LONGSHORE_SIMD void cross_entropy_rows(float* logits, const int32_t* targets, float cap,
                                       float* losses, bfloat16* dlogits, float scale, int64_t rows,
                                       int64_t v) {
  cross_entropy_body(logits, targets, cap, losses, dlogits, scale, rows, v);
}

struct Gradients {
  void* dx;
  void* dweight;  // null when W is frozen
  void* dz;       // null where there is no z
  bool has_sum;   // dweight holds something already
  float scale;
};

// `z`: the number of that input; -1 where there is none.
float run_chunks(const KernelCall& call, const CrossEntropyWorkspace& l, double soft_cap, int z,
                 Dtype gradient, const Gradients* grads) {
  const std::vector<Type> in = types_of(call.in);
  const Type &x = call.in[0].type, &weight = call.in[1].type;
  int64_t tokens = x.shape.rows(), v = weight.shape[0], c = weight.shape[1];
  int64_t element = size_bytes(x.dtype);
  auto at = [&](int64_t offset) { return call.workspace.data() + offset; };
  float* logits = reinterpret_cast<float*>(at(l.logits));
  float* losses = reinterpret_cast<float*>(at(l.losses));
  std::span<std::byte> scratch = call.workspace.subspan(l.scratch);
  const int32_t* targets = call.in[2].as<int32_t>();
  float cap = static_cast<float>(soft_cap);

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
    with_float_type(x.dtype, [&]<class T>(T) {
      T* dlogits = !grads
                       ? nullptr
                       : reinterpret_cast<T*>(l.losses > l.dlogits ? at(l.dlogits) : at(l.logits));
      parallel_ranges(size, [&](int64_t first, int64_t last) {
        cross_entropy_rows(logits + first * v, targets + begin + first, cap, losses + begin + first,
                           dlogits ? dlogits + first * v : nullptr, grads ? grads->scale : 0.f,
                           last - first, v);
      });
      if (!grads) return;
      // The weight's first: dx may take x's place.
      if (grads->dweight)
        run(begin == 0 && !grads->has_sum ? p.dweight_first : p.dweight, dlogits, x_chunk,
            grads->dweight, scratch);
      run(p.dx, dlogits, call.in[1].data, static_cast<std::byte*>(grads->dx) + begin * c * element,
          scratch);
      if (z >= 0)
        run(frozen_products(in, z, size).dx, dlogits, call.in[z + 1].data,
            static_cast<std::byte*>(grads->dz) + z_offset, scratch);
    });
  }
  double total = 0;
  for (int64_t i = 0; i < tokens; ++i) total += losses[i];
  return static_cast<float>(total);
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
  CrossEntropyWorkspace l = workspace_cpu(types_of(call.in), nullptr);
  *call.out[0].as<float>() =
      run_chunks(call, l, linear_cross_entropy_attrs(call.attrs).soft_cap,
                 cross_entropy_operands(call.in.size(), nullptr).z, Dtype::float32, nullptr);
}

void linear_cross_entropy_grad_cpu(const KernelCall& call) {
  const LinearCrossEntropyGradAttrs& attrs = linear_cross_entropy_grad_attrs(call.attrs);
  const CrossEntropyOperands at = cross_entropy_operands(call.in.size(), &attrs);
  bool has_sum = at.sum >= 0;
  CrossEntropyWorkspace l = workspace_cpu(types_of(call.in), &attrs);
  if (has_sum && call.in[at.sum].data != call.out[at.dweight].data)
    std::memcpy(call.out[at.dweight].data, call.in[at.sum].data, call.out[at.dweight].type.bytes());
  Gradients grads{.dx = call.out[0].data,
                  .dweight = at.dweight < 0 ? nullptr : call.out[at.dweight].data,
                  .dz = at.dz < 0 ? nullptr : call.out[at.dz].data,
                  .has_sum = has_sum,
                  .scale = *call.in[3].as<float>()};
  *call.out[1].as<float>() =
      run_chunks(call, l, attrs.soft_cap, at.z, attrs.weight_gradient_dtype, &grads);
}

}  // namespace longshore::models
