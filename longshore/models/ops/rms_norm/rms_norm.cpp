#include "longshore/models/ops/rms_norm/rms_norm.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "longshore/base/pieces.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/norm_grad.h"
#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/rms_norm/rms_norm_kernels.h"

namespace longshore::models {
namespace {

struct Attrs {
  double epsilon;
  double weight_offset;
};

std::string print_offset(double weight_offset) {
  if (weight_offset == 0) return "";
  return ", " + print_number("weight_offset", weight_offset);
}

// --- records

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "rms_norm");
  expect(in[1].shape.rank() == 1 && in[0].shape.back() % in[1].shape[0] == 0, "rms_norm",
         "x [.., H*D] and w [D] do not fit");
  expect(in[0].dtype == in[1].dtype, "rms_norm", "x and w differ in dtype");
  return {in[0], {{in[0].shape.count() / in[1].shape[0]}, reduction_dtype(in[0].dtype)}};
}

Types infer_grad(const std::any& attrs, std::span<const Type> in) {
  return infer_norm_grad(attrs, in, "rms_norm_grad");
}

void vjp(Backward& backward, const Node& node) {
  const double offset = std::any_cast<const Attrs&>(node.attrs).weight_offset;
  emit_norm_grad(backward, rms_norm_grad_op, {.operands = 4, .weight_offset = offset},
                 {backward.gradient(node.out[0]), node.in[0], node.in[1], node.out[1]});
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 4.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

Cost cost_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 10.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

std::string print(const std::any& any) {
  const Attrs& attrs = std::any_cast<const Attrs&>(any);
  return print_number("epsilon", attrs.epsilon) + print_offset(attrs.weight_offset);
}

// --- CPU

// What is added to weights. Minus zero adds nothing to any of them; zero would change -0.
float added_to_weights(double weight_offset) {
  return weight_offset == 0 ? -0.f : static_cast<float>(weight_offset);
}

template <class T>
LONGSHORE_INLINE void norm_body(const T* x, const T* weight, float offset, float epsilon, T* y,
                                float* rstd, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; ++i) sum += load(x[i]) * load(x[i]);
    float scale = 1.f / std::sqrt(sum / width + epsilon);
    rstd[row] = scale;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i)
      store(y[i], load(x[i]) * scale * (offset + load(weight[i])));
  }
}

// `dweight` is this thread's share of the weight's gradient, or null.
template <class T>
LONGSHORE_INLINE void norm_grad_body(const T* dy, const T* x, const T* weight, float offset,
                                     const float* rstd, const T* input_sum, T* dx, float* dweight,
                                     int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row) {
    float scale = rstd[row], dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < width; ++i)
      dot += load(dy[i]) * (offset + load(weight[i])) * load(x[i]);
    float shift = dot * scale * scale / width;
    if (dweight) {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) dweight[i] += load(dy[i]) * load(x[i]) * scale;
    }
    if (input_sum) {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i)
        store(dx[i], load(input_sum[i]) +
                         scale * (load(dy[i]) * (offset + load(weight[i])) - load(x[i]) * shift));
      input_sum += width;
    } else {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i)
        store(dx[i], scale * (load(dy[i]) * (offset + load(weight[i])) - load(x[i]) * shift));
    }
    dy += width, x += width, dx += width;
  }
}

LONGSHORE_SIMD void norm_rows(const float* x, const float* weight, float offset, float epsilon,
                              float* y, float* rstd, int64_t rows, int64_t width) {
  norm_body(x, weight, offset, epsilon, y, rstd, rows, width);
}
LONGSHORE_SIMD void norm_rows(const bfloat16* x, const bfloat16* weight, float offset,
                              float epsilon, bfloat16* y, float* rstd, int64_t rows,
                              int64_t width) {
  norm_body(x, weight, offset, epsilon, y, rstd, rows, width);
}
LONGSHORE_SIMD void norm_grad_rows(const float* dy, const float* x, const float* weight,
                                   float offset, const float* rstd, const float* input_sum,
                                   float* dx, float* dweight, int64_t rows, int64_t width) {
  norm_grad_body(dy, x, weight, offset, rstd, input_sum, dx, dweight, rows, width);
}
LONGSHORE_SIMD void norm_grad_rows(const bfloat16* dy, const bfloat16* x, const bfloat16* weight,
                                   float offset, const float* rstd, const bfloat16* input_sum,
                                   bfloat16* dx, float* dweight, int64_t rows, int64_t width) {
  norm_grad_body(dy, x, weight, offset, rstd, input_sum, dx, dweight, rows, width);
}

void run_cpu(const KernelCall& call) {
  const Attrs& attrs = std::any_cast<const Attrs&>(call.attrs);
  float epsilon = static_cast<float>(attrs.epsilon), offset = added_to_weights(attrs.weight_offset);
  int64_t width = call.in[1].type.shape[0];
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[1].type.shape[0], [&](int64_t begin, int64_t end) {
      norm_rows(call.in[0].as<T>() + begin * width, call.in[1].as<T>(), offset, epsilon,
                call.out[0].as<T>() + begin * width, call.out[1].as<float>() + begin, end - begin,
                width);
    });
  });
}

void run_grad_cpu(const KernelCall& call) {
  const NormGradAttrs& attrs = norm_grad_attrs(call.attrs);
  int64_t rows = call.in[3].type.shape[0], width = call.in[2].type.shape[0];
  float offset = added_to_weights(attrs.weight_offset);
  float* partial = reinterpret_cast<float*>(call.workspace.data());
  int64_t partials = static_cast<int64_t>(call.workspace.size()) / (width * sizeof(float));
  std::fill(partial, partial + partials * width, 0.f);
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_shares(rows, [&](int64_t share, int64_t begin, int64_t end) {
      int64_t at = begin * width;
      float* mine = partials ? partial + share * width : nullptr;
      norm_grad_rows(call.in[0].as<T>() + at, call.in[1].as<T>() + at, call.in[2].as<T>(), offset,
                     call.in[3].as<float>() + begin,
                     attrs.input_sum ? call.in[attrs.input_sum_index()].as<T>() + at : nullptr,
                     call.out[0].as<T>() + at, mine, end - begin, width);
    });
  });
  add_norm_grad_partials(call);
}

// --- composition

int64_t rows_of_part(int64_t width) { return std::max<int64_t>(1, kCompositionElements / width); }

// One run a row.
at::Tensor runs(const KernelCall& call, const Ref& ref, int64_t width) {
  return tensor(call, ref).view({-1, width});
}

at::Tensor wide_weight(const KernelCall& call, const Ref& ref, double offset) {
  at::Tensor weight = tensor(call, ref).to(compute_type(ref));
  return offset == 0 ? weight : weight + offset;
}

void run_composed(const KernelCall& call) {
  const Attrs& attrs = std::any_cast<const Attrs&>(call.attrs);
  int64_t width = call.in[1].type.shape[0];
  at::Tensor weight = wide_weight(call, call.in[1], attrs.weight_offset);
  at::Tensor rstds = tensor(call, call.out[1]).view({-1});
  for_each_piece(rstds.size(0), rows_of_part(width), [&](int64_t begin, int64_t count) {
    auto part = [&](const Ref& ref) { return runs(call, ref, width).narrow(0, begin, count); };
    at::Tensor x = part(call.in[0]).to(compute_type(call.in[0]));
    at::Tensor rstd = at::rsqrt((x * x).mean(-1, true) + attrs.epsilon);
    rstds.narrow(0, begin, count).copy_(rstd.squeeze(-1));
    part(call.out[0]).copy_(x * rstd * weight);
  });
}

void run_grad_composed(const KernelCall& call) {
  const NormGradAttrs& attrs = norm_grad_attrs(call.attrs);
  auto wide = compute_type(call.in[0]);
  int64_t width = call.in[2].type.shape[0];
  at::Tensor weight = wide_weight(call, call.in[2], attrs.weight_offset);
  at::Tensor rstds = tensor(call, call.in[3]).view({-1}).to(wide);
  // Made before the parts' temporaries: the workspace is a stack.
  at::Tensor dweight = at::zeros({attrs.weight_gradient ? width : 0}, rstds.options());
  if (attrs.weight_sum) dweight.copy_(tensor(call, call.in[attrs.weight_sum_index()]));
  for_each_piece(rstds.size(0), rows_of_part(width), [&](int64_t begin, int64_t count) {
    auto part = [&](const Ref& ref) { return runs(call, ref, width).narrow(0, begin, count); };
    at::Tensor dy = part(call.in[0]).to(wide), x = part(call.in[1]).to(wide);
    at::Tensor rstd = rstds.narrow(0, begin, count).unsqueeze(-1);
    at::Tensor normed = x * rstd, scaled = dy * weight;
    at::Tensor dx = (scaled - normed * (scaled * normed).mean(-1, true)) * rstd;
    if (attrs.input_sum) dx = dx + part(call.in[attrs.input_sum_index()]);
    if (attrs.weight_gradient) dweight.add_((dy * normed).sum(0));
    part(call.out[0]).copy_(dx);
  });
  if (attrs.weight_gradient) tensor(call, call.out[1]).copy_(dweight);
}

template <int kTemporaries, int kWeight>
int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  // A part's temporaries, and what the weights and all rows have.
  int64_t width = in[kWeight].shape[0], rows = in[0].shape.count() / width;
  int64_t part = std::min(rows, rows_of_part(width)) * width;
  return (kTemporaries * part + 4 * width + 2 * rows) * size_bytes(Dtype::float32) + (1 << 14);
}

}  // namespace

RmsNormArguments rms_norm_arguments(const KernelCall& call) {
  const Attrs& attrs = std::any_cast<const Attrs&>(call.attrs);
  return {.dtype = call.out[0].type.dtype,
          .rows = call.out[1].type.shape[0],
          .width = call.in[1].type.shape[0],
          .x = call.in[0].data,
          .weight = call.in[1].data,
          .weight_offset = added_to_weights(attrs.weight_offset),
          .epsilon = static_cast<float>(attrs.epsilon),
          .y = call.out[0].data,
          .rstd = call.out[1].as<float>()};
}

RmsNormGradArguments rms_norm_grad_arguments(const KernelCall& call) {
  const NormGradAttrs& attrs = norm_grad_attrs(call.attrs);
  RmsNormGradArguments arguments{
      .dtype = call.out[0].type.dtype,
      .rows = call.in[3].type.shape[0],
      .width = call.in[2].type.shape[0],
      .dy = call.in[0].data,
      .x = call.in[1].data,
      .weight = call.in[2].data,
      .weight_offset = added_to_weights(attrs.weight_offset),
      .rstd = call.in[3].as<float>(),
      .input_sum = attrs.input_sum ? call.in[attrs.input_sum_index()].data : nullptr,
      .dx = call.out[0].data};
  if (!attrs.weight_gradient) return arguments;
  arguments.partials = reinterpret_cast<float*>(call.workspace.data());
  if (attrs.weight_sum) arguments.weight_sum = call.in[attrs.weight_sum_index()].as<float>();
  arguments.dweight = call.out[1].as<float>();
  return arguments;
}

const Op rms_norm_op{.name = "rms_norm",
                     .infer = infer,
                     .vjp = vjp,
                     .cost = cost,
                     .print = print,
                     .reuse = reuse,
                     .recompute_cost = RecomputeCost::low,
                     .cpu = {run_cpu},
                     .cuda = {custom_kernel<launch_rms_norm, rms_norm_arguments>()},
                     .cuda_composed = {run_composed, workspace_composed<5, 1>},
                     .reference = {run_composed}};

const Op rms_norm_grad_op{.name = "rms_norm_grad",
                          .infer = infer_grad,
                          .cost = cost_grad,
                          .print = print_norm_grad,
                          .reuse = reuse_norm_grad,
                          .recompute_cost = RecomputeCost::low,
                          .cpu = {run_grad_cpu, norm_grad_partials_bytes},
                          .cuda = {custom_kernel<launch_rms_norm_grad, rms_norm_grad_arguments>(),
                                   custom_norm_grad_bytes},
                          .cuda_composed = {run_grad_composed, workspace_composed<13, 2>},
                          .reference = {run_grad_composed}};

Var rms_norm(Var x, Var weight, double epsilon, const RmsNormOptions& options) {
  return x.trace->emit(rms_norm_op, Attrs{epsilon, options.weight_offset}, {x, weight})[0];
}

}  // namespace longshore::models
