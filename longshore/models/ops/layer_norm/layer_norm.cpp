#include "longshore/models/ops/layer_norm/layer_norm.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "longshore/base/pieces.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/add_bias/add_bias.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/norm_grad.h"
#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/layer_norm/layer_norm_kernels.h"

namespace longshore::models {
namespace {

struct Attrs {
  double epsilon;
};

// --- records

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "layer_norm");
  expect(in[1].shape.rank() == 1 && in[0].shape.back() == in[1].shape[0] && in[1] == in[2],
         "layer_norm", "x [.., C], w [C] and b [C] do not fit");
  expect(in[0].dtype == in[1].dtype, "layer_norm", "x and w differ in dtype");
  const Type statistics{{in[0].shape.rows()}, reduction_dtype(in[0].dtype)};
  return {in[0], statistics, statistics};
}

Types infer_grad(const std::any& attrs, std::span<const Type> in) {
  return infer_norm_grad(attrs, in, "layer_norm_grad");
}

void vjp(Backward& backward, const Node& node) {
  const ValueId x = node.in[0], weight = node.in[1], bias = node.in[2],
                dy = backward.gradient(node.out[0]);
  if (backward.wants_gradient(bias)) accumulate_bias_grad(backward, dy, bias);
  if (backward.wants_gradient(weight) || backward.wants_gradient(x))
    emit_norm_grad(backward, layer_norm_grad_op, {.operands = 5},
                   {dy, x, weight, node.out[1], node.out[2]});
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 7.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

Cost cost_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 14.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

std::string print(const std::any& any) {
  return print_number("epsilon", std::any_cast<const Attrs&>(any).epsilon);
}

// --- CPU

template <class T>
LONGSHORE_INLINE void norm_body(const T* x, const T* weight, const T* bias, float epsilon, T* y,
                                float* mean, float* rstd, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; ++i) sum += load(x[i]);
    const float middle = sum / width;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; ++i) squares += (load(x[i]) - middle) * (load(x[i]) - middle);
    const float scale = 1.f / std::sqrt(squares / width + epsilon);
    mean[row] = middle, rstd[row] = scale;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i)
      store(y[i], (load(x[i]) - middle) * scale * load(weight[i]) + load(bias[i]));
  }
}

// `dweight` is this thread's share of the weight's gradient, or null.
template <class T>
LONGSHORE_INLINE void norm_grad_body(const T* dy, const T* x, const T* weight, const float* mean,
                                     const float* rstd, const T* input_sum, T* dx, float* dweight,
                                     int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row, dy += width, x += width, dx += width) {
    const float middle = mean[row], scale = rstd[row];
    float gradient_sum = 0, dot = 0;
#pragma omp simd reduction(+ : gradient_sum, dot)
    for (int64_t i = 0; i < width; ++i) {
      const float gradient = load(dy[i]) * load(weight[i]);
      gradient_sum += gradient;
      dot += gradient * ((load(x[i]) - middle) * scale);
    }
    const float gradient_mean = gradient_sum / width, shift = dot / width;
    if (dweight) {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i)
        dweight[i] += load(dy[i]) * ((load(x[i]) - middle) * scale);
    }
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const float grad = scale * (load(dy[i]) * load(weight[i]) - gradient_mean -
                                  (load(x[i]) - middle) * scale * shift);
      store(dx[i], input_sum ? load(input_sum[i]) + grad : grad);
    }
    if (input_sum) input_sum += width;
  }
}

LONGSHORE_SIMD void norm_rows(const float* x, const float* weight, const float* bias, float epsilon,
                              float* y, float* mean, float* rstd, int64_t rows, int64_t width) {
  norm_body(x, weight, bias, epsilon, y, mean, rstd, rows, width);
}
LONGSHORE_SIMD void norm_rows(const bfloat16* x, const bfloat16* weight, const bfloat16* bias,
                              float epsilon, bfloat16* y, float* mean, float* rstd, int64_t rows,
                              int64_t width) {
  norm_body(x, weight, bias, epsilon, y, mean, rstd, rows, width);
}
LONGSHORE_SIMD void norm_grad_rows(const float* dy, const float* x, const float* weight,
                                   const float* mean, const float* rstd, const float* input_sum,
                                   float* dx, float* dweight, int64_t rows, int64_t width) {
  norm_grad_body(dy, x, weight, mean, rstd, input_sum, dx, dweight, rows, width);
}
LONGSHORE_SIMD void norm_grad_rows(const bfloat16* dy, const bfloat16* x, const bfloat16* weight,
                                   const float* mean, const float* rstd, const bfloat16* input_sum,
                                   bfloat16* dx, float* dweight, int64_t rows, int64_t width) {
  norm_grad_body(dy, x, weight, mean, rstd, input_sum, dx, dweight, rows, width);
}

void run_cpu(const KernelCall& call) {
  const auto epsilon = static_cast<float>(std::any_cast<const Attrs&>(call.attrs).epsilon);
  const int64_t width = call.in[1].type.shape[0];
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[1].type.shape[0], [&](int64_t begin, int64_t end) {
      norm_rows(call.in[0].as<T>() + begin * width, call.in[1].as<T>(), call.in[2].as<T>(), epsilon,
                call.out[0].as<T>() + begin * width, call.out[1].as<float>() + begin,
                call.out[2].as<float>() + begin, end - begin, width);
    });
  });
}

void run_grad_cpu(const KernelCall& call) {
  const NormGradAttrs& attrs = norm_grad_attrs(call.attrs);
  const int64_t rows = call.in[3].type.shape[0], width = call.in[2].type.shape[0];
  float* partial = reinterpret_cast<float*>(call.workspace.data());
  int64_t partials = static_cast<int64_t>(call.workspace.size()) / (width * sizeof(float));
  std::fill(partial, partial + partials * width, 0.f);
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_shares(rows, [&](int64_t share, int64_t begin, int64_t end) {
      const int64_t at = begin * width;
      norm_grad_rows(call.in[0].as<T>() + at, call.in[1].as<T>() + at, call.in[2].as<T>(),
                     call.in[3].as<float>() + begin, call.in[4].as<float>() + begin,
                     attrs.input_sum ? call.in[attrs.input_sum_index()].as<T>() + at : nullptr,
                     call.out[0].as<T>() + at, partials ? partial + share * width : nullptr,
                     end - begin, width);
    });
  });
  add_norm_grad_partials(call);
}

// --- composition

int64_t rows_of_part(int64_t width) { return std::max<int64_t>(1, kCompositionElements / width); }

void run_composed(const KernelCall& call) {
  const double epsilon = std::any_cast<const Attrs&>(call.attrs).epsilon;
  const auto wide = compute_type(call.in[0]);
  at::Tensor weight = tensor(call, call.in[1]).to(wide), bias = tensor(call, call.in[2]).to(wide);
  at::Tensor means = tensor(call, call.out[1]), rstds = tensor(call, call.out[2]);
  for_each_piece(means.size(0), rows_of_part(weight.size(0)), [&](int64_t begin, int64_t count) {
    auto part = [&](const Ref& ref) { return matrix(call, ref).narrow(0, begin, count); };
    at::Tensor x = part(call.in[0]).to(wide);
    at::Tensor mean = x.mean(-1, true);
    at::Tensor centred = x - mean;
    at::Tensor rstd = at::rsqrt((centred * centred).mean(-1, true) + epsilon);
    means.narrow(0, begin, count).copy_(mean.squeeze(-1));
    rstds.narrow(0, begin, count).copy_(rstd.squeeze(-1));
    part(call.out[0]).copy_(centred * rstd * weight + bias);
  });
}

void run_grad_composed(const KernelCall& call) {
  const NormGradAttrs& attrs = norm_grad_attrs(call.attrs);
  const auto wide = compute_type(call.in[0]);
  at::Tensor weight = tensor(call, call.in[2]).to(wide);
  at::Tensor means = tensor(call, call.in[3]).to(wide), rstds = tensor(call, call.in[4]).to(wide);
  // Made before the parts' temporaries: the workspace is a stack.
  at::Tensor dweight = at::zeros({attrs.weight_gradient ? weight.size(0) : 0}, rstds.options());
  if (attrs.weight_sum) dweight.copy_(tensor(call, call.in[attrs.weight_sum_index()]));
  for_each_piece(means.size(0), rows_of_part(weight.size(0)), [&](int64_t begin, int64_t count) {
    auto part = [&](const Ref& ref) { return matrix(call, ref).narrow(0, begin, count); };
    auto column = [&](const at::Tensor& of_rows) {
      return of_rows.narrow(0, begin, count).unsqueeze(-1);
    };
    at::Tensor dy = part(call.in[0]).to(wide);
    at::Tensor normed = (part(call.in[1]).to(wide) - column(means)) * column(rstds);
    at::Tensor scaled = dy * weight;
    at::Tensor dx = (scaled - scaled.mean(-1, true) - normed * (scaled * normed).mean(-1, true)) *
                    column(rstds);
    if (attrs.input_sum) dx = dx + part(call.in[attrs.input_sum_index()]);
    if (attrs.weight_gradient) dweight.add_((dy * normed).sum(0));
    part(call.out[0]).copy_(dx);
  });
  if (attrs.weight_gradient) tensor(call, call.out[1]).copy_(dweight);
}

template <int kTemporaries, int kWeight>
int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  // A part's temporaries, and what the weights and all rows have.
  const int64_t width = in[kWeight].shape[0], rows = in[0].shape.rows();
  const int64_t part = std::min(rows, rows_of_part(width)) * width;
  return (kTemporaries * part + 6 * width + 8 * rows) * size_bytes(Dtype::float32) + (1 << 14);
}

}  // namespace

LayerNormArguments layer_norm_arguments(const KernelCall& call) {
  return {.dtype = call.out[0].type.dtype,
          .rows = call.out[1].type.shape[0],
          .width = call.in[1].type.shape[0],
          .x = call.in[0].data,
          .weight = call.in[1].data,
          .bias = call.in[2].data,
          .epsilon = static_cast<float>(std::any_cast<const Attrs&>(call.attrs).epsilon),
          .y = call.out[0].data,
          .mean = call.out[1].as<float>(),
          .rstd = call.out[2].as<float>()};
}

LayerNormGradArguments layer_norm_grad_arguments(const KernelCall& call) {
  const NormGradAttrs& attrs = norm_grad_attrs(call.attrs);
  LayerNormGradArguments arguments{
      .dtype = call.out[0].type.dtype,
      .rows = call.in[3].type.shape[0],
      .width = call.in[2].type.shape[0],
      .dy = call.in[0].data,
      .x = call.in[1].data,
      .weight = call.in[2].data,
      .mean = call.in[3].as<float>(),
      .rstd = call.in[4].as<float>(),
      .input_sum = attrs.input_sum ? call.in[attrs.input_sum_index()].data : nullptr,
      .dx = call.out[0].data};
  if (!attrs.weight_gradient) return arguments;
  arguments.partials = reinterpret_cast<float*>(call.workspace.data());
  if (attrs.weight_sum) arguments.weight_sum = call.in[attrs.weight_sum_index()].as<float>();
  arguments.dweight = call.out[1].as<float>();
  return arguments;
}

const Op layer_norm_op{.name = "layer_norm",
                       .infer = infer,
                       .vjp = vjp,
                       .cost = cost,
                       .print = print,
                       .reuse = reuse,
                       .recompute_cost = RecomputeCost::low,
                       .cpu = {run_cpu},
                       .cuda = {custom_kernel<launch_layer_norm, layer_norm_arguments>()},
                       .cuda_composed = {run_composed, workspace_composed<6, 1>},
                       .reference = {run_composed}};

const Op layer_norm_grad_op{
    .name = "layer_norm_grad",
    .infer = infer_grad,
    .cost = cost_grad,
    .print = print_norm_grad,
    .reuse = reuse_norm_grad,
    .recompute_cost = RecomputeCost::low,
    .cpu = {run_grad_cpu, norm_grad_partials_bytes},
    .cuda = {custom_kernel<launch_layer_norm_grad, layer_norm_grad_arguments>(),
             custom_norm_grad_bytes},
    .cuda_composed = {run_grad_composed, workspace_composed<14, 2>},
    .reference = {run_grad_composed}};

Var layer_norm(Var x, Var weight, Var bias, double epsilon) {
  return x.trace->emit(layer_norm_op, Attrs{epsilon}, {x, weight, bias})[0];
}

}  // namespace longshore::models
