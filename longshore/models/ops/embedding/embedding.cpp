#include "longshore/models/ops/embedding/embedding.h"

#include <ATen/ops/eq.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/masked_fill.h>

#include <cstring>
#include <string>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/embedding/embedding_kernels.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

struct Attrs {
  int64_t padding;  // id; -1: none
};

// The shape of W, which its gradient has but no operand tells.
struct GradAttrs {
  int64_t vocabulary;
  Dtype dtype;
  int64_t padding;  // id; -1: none
};

std::string print_padding(int64_t padding) {
  return padding < 0 ? "" : "padding=" + std::to_string(padding);
}

std::string print(const std::any& any) {
  return print_padding(std::any_cast<const Attrs&>(any).padding);
}

const GradAttrs& grad_attrs(const std::any& attrs) {
  return std::any_cast<const GradAttrs&>(attrs);
}

std::string print_grad(const std::any& attrs) { return print_padding(grad_attrs(attrs).padding); }

// --- records

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "embedding");
  expect(in[0].shape.rank() == 2 && in[0].dtype == Dtype::int32, "embedding",
         "ids are not i32 [B,T]");
  expect(in[1].shape.rank() == 2, "embedding", "W is not [V,C]");
  return {{{in[0].shape[0], in[0].shape[1], in[1].shape[1]}, in[1].dtype}};
}

Types infer_grad(const std::any& any, std::span<const Type> in) {
  expect_inputs(in, 2, 3, "embedding_grad");
  return {{{grad_attrs(any).vocabulary, in[1].shape.back()}, grad_attrs(any).dtype}};
}

void vjp(Backward& backward, const Node& node) {
  ValueId weight = node.in[1];
  if (!backward.wants_gradient(weight)) return;
  const GradAttrs attrs{backward.program()[weight].type.shape[0], backward.weight_gradient_dtype(),
                        std::any_cast<const Attrs&>(node.attrs).padding};
  backward.accumulate(embedding_grad_op, attrs, {node.in[0], backward.gradient(node.out[0])},
                      weight);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 0, .bytes = static_cast<double>(in[0].bytes()) + 2.0 * out[0].bytes()};
}

Cost cost_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(in[1].shape.count()), .bytes = operand_bytes(in, out)};
}

// --- CPU

void run_cpu(const KernelCall& call) {
  const Ref &ids = call.in[0], &table = call.in[1];
  int64_t row_bytes = table.type.shape.back() * size_bytes(table.type.dtype);
  const int32_t* id = ids.as<int32_t>();
  parallel_ranges(ids.type.shape.count(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(call.out[0].as<std::byte>() + i * row_bytes,
                  table.as<std::byte>() + id[i] * row_bytes, row_bytes);
  });
}

template <class T>
LONGSHORE_INLINE void add_row_body(const T* from, float* to, int64_t width) {
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) to[i] += load(from[i]);
}
LONGSHORE_SIMD void add_row(const float* from, float* to, int64_t width) {
  add_row_body(from, to, width);
}
LONGSHORE_SIMD void add_row(const bfloat16* from, float* to, int64_t width) {
  add_row_body(from, to, width);
}

void run_grad_cpu(const KernelCall& call) {
  const int32_t* ids = call.in[0].as<int32_t>();
  int64_t tokens = call.in[0].type.shape.count(), width = call.in[1].type.shape.back();
  int64_t vocabulary = call.out[0].type.shape[0], padding = grad_attrs(call.attrs).padding;
  float* dweight = call.out[0].as<float>();
  const float* sum = call.in.size() == 3 ? call.in[2].as<float>() : nullptr;
  with_float_type(call.in[1].type.dtype, [&]<class T>(T) {
    const T* dy = call.in[1].as<T>();
    // A thread owns every threads-th row, which spreads the frequent tokens (they have low ids).
#pragma omp parallel
    {
      int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
      for (int64_t row = thread; row < vocabulary; row += threads) {
        if (!sum)
          std::memset(dweight + row * width, 0, width * sizeof(float));
        else if (sum != dweight)
          std::memcpy(dweight + row * width, sum + row * width, width * sizeof(float));
      }
      for (int64_t token = 0; token < tokens; ++token)
        if (ids[token] % threads == thread && ids[token] != padding)
          add_row(dy + token * width, dweight + ids[token] * width, width);
    }
  });
}

// --- composition

void run_composed(const KernelCall& call) {
  at::Tensor out = matrix(call, call.out[0]);
  at::index_select_out(out, tensor(call, call.in[1]), 0, tensor(call, call.in[0]).view({-1}));
}

void run_grad_composed(const KernelCall& call) {
  at::Tensor out = tensor(call, call.out[0]);
  if (call.in.size() == 3)
    out.copy_(tensor(call, call.in[2]));
  else
    out.zero_();
  const int64_t padding = grad_attrs(call.attrs).padding;
  const at::Tensor ids = tensor(call, call.in[0]).view({-1});
  at::Tensor dy = matrix(call, call.in[1]).to(out.scalar_type(), false, /*copy=*/padding >= 0);
  if (padding >= 0) dy.masked_fill_(ids.eq(padding).unsqueeze(1), 0);
  out.index_add_(0, ids, dy);
}

// dy in the gradient's dtype; with deterministic sums also the sorted ids and their order.
int64_t workspace_grad_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return in[1].shape.count() * size_bytes(Dtype::float32) + 64 * in[0].shape.count() + (4 << 20);
}

// --- custom kernels on CUDA

// The sorted tokens and their ids.
int64_t workspace_grad_own(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return 2 * in[0].shape.count() * size_bytes(Dtype::int32);
}

}  // namespace

EmbeddingGradArguments embedding_grad_arguments(const KernelCall& call) {
  return {.dtype = call.in[1].type.dtype,
          .tokens = call.in[0].type.shape.count(),
          .vocabulary = call.out[0].type.shape[0],
          .width = call.in[1].type.shape.back(),
          .padding = grad_attrs(call.attrs).padding,
          .ids = call.in[0].as<int32_t>(),
          .dy = call.in[1].data,
          .sorted = reinterpret_cast<int32_t*>(call.workspace.data()),
          .so_far = call.in.size() == 3 ? call.in[2].as<float>() : nullptr,
          .dweight = call.out[0].as<float>()};
}

const Op embedding_op{.name = "embedding",
                      .infer = infer,
                      .vjp = vjp,
                      .cost = cost,
                      .print = print,
                      .recompute_cost = RecomputeCost::low,
                      .cpu = {run_cpu},
                      .cuda = {run_composed},
                      .reference = {run_composed}};

const Op embedding_grad_op{
    .name = "embedding_grad",
    .infer = infer_grad,
    .cost = cost_grad,
    .print = print_grad,
    .sum_input = 2,
    .cpu = {run_grad_cpu},
    .cuda = {custom_kernel<launch_embedding_grad, embedding_grad_arguments>(), workspace_grad_own},
    .cuda_composed = {run_grad_composed, workspace_grad_composed},
    .reference = {run_grad_composed}};

Var embedding(Var ids, Var weight, int64_t padding) {
  return ids.trace->emit(embedding_op, Attrs{padding}, {ids, weight})[0];
}

}  // namespace longshore::models
