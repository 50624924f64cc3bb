#include "models/ops/losses.h"

#include <ATen/ops/addcmul.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <cstdio>

#include "models/backward.h"
#include "models/ops/aten.h"
#include "models/ops/infer.h"
#include "models/ops/simd.h"

namespace longshore::models {
namespace {

Type loss_type(Dtype dtype) {
  return {{}, dtype == Dtype::float64 ? Dtype::float64 : Dtype::float32};
}

// --- sums on the CPU: blocks apart, then the blocks in order, whoever summed them

constexpr int64_t kBlock = 1 << 16;

int64_t blocks(int64_t count) { return (count + kBlock - 1) / kBlock; }

// For the sum over input `kInput`.
template <int kInput>
int64_t workspace_blocks(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return blocks(in[kInput].shape.count()) * size_bytes(Dtype::float64);
}

// The sum of block(begin, size) over the blocks of [0, count).
template <class Block>
double sum_of_blocks(std::span<std::byte> workspace, int64_t count, Block block) {
  double* partial = reinterpret_cast<double*>(workspace.data());
  parallel_ranges(blocks(count), [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b)
      partial[b] = block(b * kBlock, std::min(kBlock, count - b * kBlock));
  });
  double sum = 0;
  for (int64_t b = 0; b < blocks(count); ++b) sum += partial[b];
  return sum;
}

// --- what compositions allocate

// Scalars, and the partial sums of a reduction.
constexpr int64_t kReductionBytes = 1 << 16;

int64_t wide_bytes(const Type& type) { return allocated_bytes(Type{type.shape}.bytes()); }

// A copy in float32 of what is not float32 already.
int64_t widened_bytes(const Type& type) {
  return type.dtype == Dtype::bfloat16 ? wide_bytes(type) : 0;
}

// --- sum

struct SumGradAttrs {
  Type type;  // of the gradient: dloss does not tell it
};

Types infer_sum(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "sum");
  return {loss_type(in[0].dtype)};
}

Types infer_sum_grad(const std::any& attrs, std::span<const Type> in) {
  const Type& out = std::any_cast<const SumGradAttrs&>(attrs).type;
  expect_inputs(in, 1, 1, "sum_grad");
  expect(in[0] == loss_type(out.dtype), "sum_grad", "dloss is not a scalar of the loss's type");
  return {out};
}

void vjp_sum(Backward& backward, const Node& node) {
  ValueId x = node.in[0];
  backward.contribute(x, backward.emit(sum_grad_op, SumGradAttrs{backward.program()[x].type},
                                       {backward.gradient(node.out[0])}, x)[0]);
}

Cost cost_sum(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(in[0].shape.count()), .bytes = operand_bytes(in, out)};
}

Cost cost_sum_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 0, .bytes = operand_bytes(in, out)};
}

template <class T>
LONGSHORE_INLINE double sum_body(const T* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += load(x[i]);
  return sum;
}

template <class T>
LONGSHORE_INLINE void fill_body(T* x, float value, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(x[i], value);
}

LONGSHORE_SIMD double sum_range(const float* x, int64_t count) { return sum_body(x, count); }
LONGSHORE_SIMD double sum_range(const bfloat16* x, int64_t count) { return sum_body(x, count); }
LONGSHORE_SIMD void fill_range(float* x, float value, int64_t count) { fill_body(x, value, count); }
LONGSHORE_SIMD void fill_range(bfloat16* x, float value, int64_t count) {
  fill_body(x, value, count);
}

void run_sum_cpu(const KernelCall& call) {
  int64_t count = call.in[0].type.shape.count();
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    const T* x = call.in[0].as<T>();
    double sum = sum_of_blocks(call.workspace, count, [&](int64_t begin, int64_t size) {
      return sum_range(x + begin, size);
    });
    *call.out[0].as<float>() = static_cast<float>(sum);
  });
}

void run_sum_grad_cpu(const KernelCall& call) {
  float dloss = *call.in[0].as<float>();
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    T* dx = call.out[0].as<T>();
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      fill_range(dx + begin, dloss, end - begin);
    });
  });
}

void run_sum_composed(const KernelCall& call) {
  at::Tensor x = tensor(call, call.in[0]);
  tensor(call, call.out[0]).copy_(at::sum(x, compute_type(call.in[0])));
}

void run_sum_grad_composed(const KernelCall& call) {
  tensor(call, call.out[0]).copy_(tensor(call, call.in[0]));
}

int64_t workspace_sum_composed(const std::any&, std::span<const Type>, std::span<const Type>) {
  return kReductionBytes;
}

// --- mean_square_error

Types infer_error(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "mean_square_error");
  expect(in[0] == in[1], "mean_square_error", "x and target differ in type");
  return {loss_type(in[0].dtype)};
}

Types infer_error_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "mean_square_error_grad");
  expect(in[1] == in[2], "mean_square_error_grad", "x and target differ in type");
  expect(in[0] == loss_type(in[1].dtype), "mean_square_error_grad",
         "dloss is not a scalar of the loss's type");
  return {in[1], in[0]};
}

void vjp_error(Backward& backward, const Node& node) {
  ValueId x = node.in[0], target = node.in[1], dloss = backward.gradient(node.out[0]);
  ValueId loss;
  auto contribute = [&](ValueId value, ValueId other) {
    if (!backward.wants_gradient(value)) return;
    auto out = backward.emit(mean_square_error_grad_op, {}, {dloss, value, other}, value);
    backward.contribute(value, out[0]);
    if (!loss) loss = out[1];
  };
  contribute(x, target);
  contribute(target, x);
  backward.also_makes(node.out[0], loss);
}

Cost cost_error(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 3.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

Cost cost_error_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 4.0 * out[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse_error_grad(const std::any&, int) {
  return {{.out = 0, .in = 1}, {.out = 0, .in = 2}};
}

template <class T>
LONGSHORE_INLINE double square_error_body(const T* x, const T* target, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    double error = load(x[i]) - load(target[i]);
    sum += error * error;
  }
  return sum;
}

template <class T>
LONGSHORE_INLINE void error_grad_body(const T* a, const T* b, T* da, float scale, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(da[i], scale * (load(a[i]) - load(b[i])));
}

LONGSHORE_SIMD double square_error_range(const float* x, const float* target, int64_t count) {
  return square_error_body(x, target, count);
}
LONGSHORE_SIMD double square_error_range(const bfloat16* x, const bfloat16* target, int64_t count) {
  return square_error_body(x, target, count);
}
LONGSHORE_SIMD void error_grad_range(const float* a, const float* b, float* da, float scale,
                                     int64_t count) {
  error_grad_body(a, b, da, scale, count);
}
LONGSHORE_SIMD void error_grad_range(const bfloat16* a, const bfloat16* b, bfloat16* da,
                                     float scale, int64_t count) {
  error_grad_body(a, b, da, scale, count);
}

void run_error_cpu(const KernelCall& call) {
  int64_t count = call.in[0].type.shape.count();
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    const T *x = call.in[0].as<T>(), *target = call.in[1].as<T>();
    double sum = sum_of_blocks(call.workspace, count, [&](int64_t begin, int64_t size) {
      return square_error_range(x + begin, target + begin, size);
    });
    *call.out[0].as<float>() = static_cast<float>(sum / static_cast<double>(count));
  });
}

void run_error_grad_cpu(const KernelCall& call) {
  int64_t count = call.out[0].type.shape.count();
  float scale = static_cast<float>(2.0 * *call.in[0].as<float>() / static_cast<double>(count));
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    const T *a = call.in[1].as<T>(), *b = call.in[2].as<T>();
    T* da = call.out[0].as<T>();
    // A block's error is summed by the code that the loss alone uses, so that the two are equal;
    // its gradient, which may overwrite it, finds it in the cache.
    double sum = sum_of_blocks(call.workspace, count, [&](int64_t begin, int64_t size) {
      double of_block = square_error_range(a + begin, b + begin, size);
      error_grad_range(a + begin, b + begin, da + begin, scale, size);
      return of_block;
    });
    *call.out[1].as<float>() = static_cast<float>(sum / static_cast<double>(count));
  });
}

at::Tensor mean_square(const at::Tensor& error) {
  at::Tensor flat = error.view({-1});
  return at::dot(flat, flat).div_(flat.numel());
}

void run_error_composed(const KernelCall& call) {
  at::Tensor x = tensor(call, call.in[0]).to(compute_type(call.in[0]));
  tensor(call, call.out[0]).copy_(mean_square(at::sub(x, tensor(call, call.in[1]))));
}

// The difference takes the result's place, unless that would round it before it is scaled.
void run_error_grad_composed(const KernelCall& call) {
  at::Tensor a = tensor(call, call.in[1]), b = tensor(call, call.in[2]);
  at::Tensor out = tensor(call, call.out[0]);
  at::Tensor scale = tensor(call, call.in[0]) * (2.0 / static_cast<double>(out.numel()));
  auto wide = compute_type(call.in[1]);
  bool in_place = out.scalar_type() == wide;
  at::Tensor error = in_place ? at::sub_out(out, a, b) : at::sub(a.to(wide), b);
  tensor(call, call.out[1]).copy_(mean_square(error));
  error.mul_(scale);
  if (!in_place) out.copy_(error);
}

int64_t workspace_error_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return widened_bytes(in[0]) + wide_bytes(in[0]) + kReductionBytes;
}

int64_t workspace_error_grad_composed(const std::any&, std::span<const Type>,
                                      std::span<const Type> out) {
  return 2 * widened_bytes(out[0]) + kReductionBytes;
}

// --- l2_penalty

struct PenaltyAttrs {
  double factor;
};

struct PenaltyGradAttrs {
  double factor;
  Dtype weight_gradient_dtype;
};

const PenaltyGradAttrs& penalty_grad_attrs(const std::any& attrs) {
  return std::any_cast<const PenaltyGradAttrs&>(attrs);
}

Types infer_penalty(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "l2_penalty");
  return {loss_type(in[0].dtype)};
}

Types infer_penalty_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 2, 3, "l2_penalty_grad");
  expect(in[0] == loss_type(in[1].dtype), "l2_penalty_grad",
         "dloss is not a scalar of the loss's type");
  Type out{in[1].shape, penalty_grad_attrs(attrs).weight_gradient_dtype};
  expect(in.size() == 2 || in[2] == out, "l2_penalty_grad", "the sum has another type");
  return {out};
}

void vjp_penalty(Backward& backward, const Node& node) {
  ValueId weight = node.in[0];
  PenaltyGradAttrs attrs{std::any_cast<const PenaltyAttrs&>(node.attrs).factor,
                         backward.weight_gradient_dtype()};
  std::vector<ValueId> in{backward.gradient(node.out[0]), weight};
  if (ValueId sum = backward.sum_so_far(weight)) in.push_back(sum);
  backward.replace_sum(weight, backward.emit(l2_penalty_grad_op, attrs, std::move(in), weight)[0]);
}

Cost cost_penalty(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 2.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

Cost cost_penalty_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(in.size() - 1) * out[0].shape.count(),
          .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse_penalty_grad(const std::any&, int inputs) {
  return inputs == 3 ? std::vector<Reuse>{{.out = 0, .in = 2}} : std::vector<Reuse>{};
}

std::string print_factor(double factor) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "factor=%g", factor);
  return buffer;
}

std::string print_penalty(const std::any& attrs) {
  return print_factor(std::any_cast<const PenaltyAttrs&>(attrs).factor);
}

std::string print_penalty_grad(const std::any& attrs) {
  return print_factor(penalty_grad_attrs(attrs).factor);
}

template <class T>
LONGSHORE_INLINE double squares_body(const T* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(load(x[i])) * load(x[i]);
  return sum;
}

// `sum` may be `dweight`, or null.
template <class T>
LONGSHORE_INLINE void penalty_grad_body(const T* weight, const float* sum, float* dweight,
                                        float scale, int64_t count) {
  if (sum) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) dweight[i] = sum[i] + scale * load(weight[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) dweight[i] = scale * load(weight[i]);
  }
}

LONGSHORE_SIMD double squares_range(const float* x, int64_t count) {
  return squares_body(x, count);
}
LONGSHORE_SIMD double squares_range(const bfloat16* x, int64_t count) {
  return squares_body(x, count);
}
LONGSHORE_SIMD void penalty_grad_range(const float* weight, const float* sum, float* dweight,
                                       float scale, int64_t count) {
  penalty_grad_body(weight, sum, dweight, scale, count);
}
LONGSHORE_SIMD void penalty_grad_range(const bfloat16* weight, const float* sum, float* dweight,
                                       float scale, int64_t count) {
  penalty_grad_body(weight, sum, dweight, scale, count);
}

void run_penalty_cpu(const KernelCall& call) {
  double factor = std::any_cast<const PenaltyAttrs&>(call.attrs).factor;
  int64_t count = call.in[0].type.shape.count();
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    const T* weight = call.in[0].as<T>();
    double sum = sum_of_blocks(call.workspace, count, [&](int64_t begin, int64_t size) {
      return squares_range(weight + begin, size);
    });
    *call.out[0].as<float>() = static_cast<float>(factor * sum);
  });
}

void run_penalty_grad_cpu(const KernelCall& call) {
  float scale =
      static_cast<float>(2 * penalty_grad_attrs(call.attrs).factor * *call.in[0].as<float>());
  const float* sum = call.in.size() == 3 ? call.in[2].as<float>() : nullptr;
  float* dweight = call.out[0].as<float>();
  with_float_type(call.in[1].type.dtype, [&]<class T>(T) {
    const T* weight = call.in[1].as<T>();
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      penalty_grad_range(weight + begin, sum ? sum + begin : nullptr, dweight + begin, scale,
                         end - begin);
    });
  });
}

void run_penalty_composed(const KernelCall& call) {
  double factor = std::any_cast<const PenaltyAttrs&>(call.attrs).factor;
  at::Tensor weight = tensor(call, call.in[0]).to(compute_type(call.in[0])).view({-1});
  tensor(call, call.out[0]).copy_(at::dot(weight, weight).mul_(factor));
}

void run_penalty_grad_composed(const KernelCall& call) {
  at::Tensor out = tensor(call, call.out[0]);
  at::Tensor weight = tensor(call, call.in[1]).to(out.scalar_type());
  at::Tensor scale = tensor(call, call.in[0]) * (2 * penalty_grad_attrs(call.attrs).factor);
  if (call.in.size() == 3)
    at::addcmul_out(out, tensor(call, call.in[2]), weight, scale);
  else
    at::mul_out(out, weight, scale);
}

int64_t workspace_penalty_composed(const std::any&, std::span<const Type> in,
                                   std::span<const Type>) {
  return widened_bytes(in[0]) + kReductionBytes;
}

int64_t workspace_penalty_grad_composed(const std::any&, std::span<const Type> in,
                                        std::span<const Type>) {
  return widened_bytes(in[1]) + kReductionBytes;
}

}  // namespace

const Op sum_op{.name = "sum",
                .infer = infer_sum,
                .vjp = vjp_sum,
                .cost = cost_sum,
                .cpu = {run_sum_cpu, workspace_blocks<0>},
                .cuda = {run_sum_composed, workspace_sum_composed},
                .reference = {run_sum_composed}};

const Op sum_grad_op{.name = "sum_grad",
                     .infer = infer_sum_grad,
                     .cost = cost_sum_grad,
                     .price = Price::cheap,
                     .cpu = {run_sum_grad_cpu},
                     .cuda = {run_sum_grad_composed},
                     .reference = {run_sum_grad_composed}};

const Op mean_square_error_op{.name = "mean_square_error",
                              .infer = infer_error,
                              .vjp = vjp_error,
                              .cost = cost_error,
                              .cpu = {run_error_cpu, workspace_blocks<0>},
                              .cuda = {run_error_composed, workspace_error_composed},
                              .reference = {run_error_composed}};

const Op mean_square_error_grad_op{.name = "mean_square_error_grad",
                                   .infer = infer_error_grad,
                                   .cost = cost_error_grad,
                                   .reuse = reuse_error_grad,
                                   .cpu = {run_error_grad_cpu, workspace_blocks<1>},
                                   .cuda = {run_error_grad_composed, workspace_error_grad_composed},
                                   .reference = {run_error_grad_composed}};

const Op l2_penalty_op{.name = "l2_penalty",
                       .infer = infer_penalty,
                       .vjp = vjp_penalty,
                       .cost = cost_penalty,
                       .print = print_penalty,
                       .cpu = {run_penalty_cpu, workspace_blocks<0>},
                       .cuda = {run_penalty_composed, workspace_penalty_composed},
                       .reference = {run_penalty_composed}};

const Op l2_penalty_grad_op{.name = "l2_penalty_grad",
                            .infer = infer_penalty_grad,
                            .cost = cost_penalty_grad,
                            .print = print_penalty_grad,
                            .reuse = reuse_penalty_grad,
                            .price = Price::cheap,
                            .cpu = {run_penalty_grad_cpu},
                            .cuda = {run_penalty_grad_composed, workspace_penalty_grad_composed},
                            .reference = {run_penalty_grad_composed}};

Var sum(Var x) { return x.trace->emit(sum_op, {}, {x})[0]; }

Var mean_square_error(Var x, Var target) {
  return x.trace->emit(mean_square_error_op, {}, {x, target})[0];
}

Var l2_penalty(Var weight, double factor) {
  return weight.trace->emit(l2_penalty_op, PenaltyAttrs{factor}, {weight})[0];
}

}  // namespace longshore::models
