#include "longshore/models/ops/expert_scale.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "longshore/base/pieces.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

// --- records

bool fit(const Type& weights, const Type& experts) {
  return weights.dtype == reduction_dtype(weights.dtype) &&
         experts == Type{weights.shape, Dtype::int32};
}

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "scale_by_expert");
  expect(fit(in[0], in[1]), "scale_by_expert",
         "weights are neither f32 nor f64, or experts are not i32 like them");
  expect(in[2].shape.rank() == 1 && reduction_dtype(in[2].dtype) == in[0].dtype, "scale_by_expert",
         "scale is not [E] of a dtype that goes with the weights'");
  return {in[0]};
}

// The type of the scale's gradient, which no operand tells.
const Type& type_of(const std::any& attrs) { return std::any_cast<const Type&>(attrs); }

Types infer_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 3, 4, "scale_by_expert_grad");
  expect(in[0] == in[1] && fit(in[1], in[2]), "scale_by_expert_grad",
         "dout, weights and experts do not fit");
  return {type_of(attrs)};
}

// The gradient of the weights is theirs again by their experts.
void vjp(Backward& backward, const Node& node) {
  const ValueId weights = node.in[0], experts = node.in[1], scale = node.in[2],
                dout = backward.gradient(node.out[0]);
  if (backward.wants_gradient(scale)) {
    const Type type{backward.program()[scale].type.shape, backward.weight_gradient_dtype()};
    backward.accumulate(scale_by_expert_grad_op, type, {dout, weights, experts}, scale);
  }
  if (backward.wants_gradient(weights))
    backward.contribute(weights,
                        backward.emit(scale_by_expert_op, {}, {dout, experts, scale}, weights)[0]);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(in[0].shape.count()), .bytes = operand_bytes(in, out)};
}

Cost cost_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 2.0 * static_cast<double>(in[0].shape.count()), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

std::string print_grad(const std::any& attrs) { return text(type_of(attrs)); }

// --- CPU

template <class T>
LONGSHORE_INLINE void scale_body(const float* weights, const int32_t* experts, const T* scale,
                                 float* out, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) out[i] = weights[i] * load(scale[experts[i]]);
}
LONGSHORE_SIMD void scale_range(const float* weights, const int32_t* experts, const float* scale,
                                float* out, int64_t count) {
  scale_body(weights, experts, scale, out, count);
}
LONGSHORE_SIMD void scale_range(const float* weights, const int32_t* experts, const bfloat16* scale,
                                float* out, int64_t count) {
  scale_body(weights, experts, scale, out, count);
}

void run_cpu(const KernelCall& call) {
  with_float_type(call.in[2].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      scale_range(call.in[0].as<float>() + begin, call.in[1].as<int32_t>() + begin,
                  call.in[2].as<T>(), call.out[0].as<float>() + begin, end - begin);
    });
  });
}

// Weights are summed in this many blocks, each in order, and then the blocks in order.
int64_t blocks(int64_t count) { return std::min<int64_t>(count, 64); }

int64_t workspace_grad_cpu(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return blocks(in[0].shape.count()) * out[0].shape.count() * size_bytes(Dtype::float32);
}

void run_grad_cpu(const KernelCall& call) {
  const int64_t all = call.in[0].type.shape.count(), experts = call.out[0].type.shape.count();
  const float *dout = call.in[0].as<float>(), *weights = call.in[1].as<float>();
  const int32_t* expert = call.in[2].as<int32_t>();
  const int64_t count = blocks(all);
  float* partial = reinterpret_cast<float*>(call.workspace.data());
  parallel_ranges(count, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      float* sums = partial + block * experts;
      std::fill_n(sums, experts, 0.f);
      for (int64_t i = all * block / count; i < all * (block + 1) / count; ++i)
        sums[expert[i]] += dout[i] * weights[i];
    }
  });
  const float* so_far = call.in.size() > 3 ? call.in[3].as<float>() : nullptr;
  float* dscale = call.out[0].as<float>();
  for (int64_t block = 1; block < count; ++block)
    for (int64_t e = 0; e < experts; ++e) partial[e] += partial[block * experts + e];
  for (int64_t e = 0; e < experts; ++e) dscale[e] = so_far ? so_far[e] + partial[e] : partial[e];
}

// --- composition

void run_composed(const KernelCall& call) {
  const at::Tensor experts = tensor(call, call.in[1]).view({-1});
  const at::Tensor scale = at::index_select(tensor(call, call.in[2]), 0, experts);
  at::Tensor out = tensor(call, call.out[0]).view({-1});
  at::mul_out(out, tensor(call, call.in[0]).view({-1}), scale);
}

// The scale of each weight.
int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return allocated_bytes(out[0].shape.count() * size_bytes(in[2].dtype));
}

int64_t piece_weights(int64_t experts) {
  return std::max<int64_t>(1, kCompositionElements / experts);
}

// Sums of rows [E,..] that hold the products of an expert, and 0 in the place of others'.
void run_grad_composed(const KernelCall& call) {
  at::Tensor out = tensor(call, call.out[0]);
  at::Tensor sum = at::zeros(out.sizes(), out.options());
  const int64_t experts = out.numel();
  for_each_piece(
      call.in[0].type.shape.count(), piece_weights(experts), [&](int64_t first, int64_t count) {
        auto part = [&](int input) {
          return tensor(call, call.in[input]).view({-1}).narrow(0, first, count);
        };
        const at::Tensor expert = part(2), products = part(0) * part(1);
        const at::Tensor is_others = at::arange(experts, expert.options()).unsqueeze(1).ne(expert);
        sum.add_(at::masked_fill(products.expand({experts, count}), is_others, 0).sum(1));
      });
  if (call.in.size() > 3) sum.add_(tensor(call, call.in[3]));
  out.copy_(sum);
}

// Of a piece: the products, whose they are not, and the rows; the experts' numbers, sums and what
// CUDA makes those of.
int64_t workspace_grad_composed(const std::any&, std::span<const Type> in,
                                std::span<const Type> out) {
  constexpr int64_t kBlocks = 256;
  const int64_t experts = out[0].shape.count();
  const int64_t count = std::min(in[0].shape.count(), piece_weights(experts));
  return allocated_bytes(count * size_bytes(Dtype::float32)) + allocated_bytes(experts * count) +
         allocated_bytes(experts * count * size_bytes(Dtype::float32)) +
         (kBlocks + 3) * wide_bytes(out[0]) + (1 << 20);
}

}  // namespace

const Op scale_by_expert_op{.name = "scale_by_expert",
                            .infer = infer,
                            .vjp = vjp,
                            .cost = cost,
                            .reuse = reuse,
                            .recompute_cost = RecomputeCost::low,
                            .cpu = {run_cpu},
                            .cuda = {run_composed, workspace_composed},
                            .reference = {run_composed}};

const Op scale_by_expert_grad_op{.name = "scale_by_expert_grad",
                                 .infer = infer_grad,
                                 .cost = cost_grad,
                                 .print = print_grad,
                                 .sum_input = 3,
                                 .cpu = {run_grad_cpu, workspace_grad_cpu},
                                 .cuda = {run_grad_composed, workspace_grad_composed},
                                 .reference = {run_grad_composed}};

Var scale_by_expert(Var weights, Var experts, Var scale) {
  return weights.trace->emit(scale_by_expert_op, {}, {weights, experts, scale})[0];
}

}  // namespace longshore::models
