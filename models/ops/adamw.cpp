#include "models/ops/adamw.h"

#include <ATen/ops/sqrt.h>

#include <cmath>

#include "models/ops/aten.h"
#include "models/ops/infer.h"
#include "models/ops/simd.h"

namespace longshore::models {
namespace {

struct Attrs {
  AdamW hyperparameters;
  Dtype compute_dtype;
};

const Attrs& attrs_of(const std::any& attrs) { return std::any_cast<const Attrs&>(attrs); }

// --- adamw

Types infer(const std::any& any, std::span<const Type> in) {
  expect_inputs(in, 8, 8, "adamw");
  for (int i = 1; i < 4; ++i)
    expect(in[i] == in[0], "adamw", "gradient, master, m and v differ in type");
  Types out{in[1], in[2], in[3]};
  if (attrs_of(any).compute_dtype != in[1].dtype)
    out.push_back({in[1].shape, attrs_of(any).compute_dtype});
  return out;
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 16.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) {
  return {{.out = 0, .in = 1}, {.out = 1, .in = 2}, {.out = 2, .in = 3}};
}

std::string print(const std::any& any) {
  const AdamW& h = attrs_of(any).hyperparameters;
  char buffer[96];
  std::snprintf(buffer, sizeof buffer, "b1=%g, b2=%g, epsilon=%g, weight_decay=%g", h.b1, h.b2,
                h.epsilon, h.weight_decay);
  return buffer;
}

struct Factors {
  float b1, b2, epsilon, decay, learning_rate, correction_1, correction_2, clip;
};

template <class T>
LONGSHORE_INLINE void adamw_body(const float* gradient, const float* master_in, const float* m_in,
                                 const float* v_in, float* master, float* m, float* v, T* compute,
                                 int64_t count, Factors f) {
  float decay = 1.f - f.learning_rate * f.decay;
  float step = f.learning_rate / f.correction_1, root = 1.f / std::sqrt(f.correction_2);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float g = gradient[i] * f.clip;
    float first = f.b1 * m_in[i] + (1.f - f.b1) * g;
    float second = f.b2 * v_in[i] + (1.f - f.b2) * g * g;
    float updated = master_in[i] * decay - step * first / (std::sqrt(second) * root + f.epsilon);
    m[i] = first;
    v[i] = second;
    master[i] = updated;
    if (compute) store(compute[i], updated);
  }
}

LONGSHORE_SIMD void adamw_range(const float* gradient, const float* master_in, const float* m_in,
                                const float* v_in, float* master, float* m, float* v,
                                bfloat16* compute, int64_t count, const Factors& factors) {
  if (compute)
    adamw_body(gradient, master_in, m_in, v_in, master, m, v, compute, count, factors);
  else
    adamw_body<bfloat16>(gradient, master_in, m_in, v_in, master, m, v, nullptr, count, factors);
}

void run_cpu(const KernelCall& call) {
  const AdamW& h = attrs_of(call.attrs).hyperparameters;
  auto scalar = [&](int i) { return *call.in[i].as<float>(); };
  Factors factors{static_cast<float>(h.b1),
                  static_cast<float>(h.b2),
                  static_cast<float>(h.epsilon),
                  static_cast<float>(h.weight_decay),
                  scalar(4),
                  scalar(5),
                  scalar(6),
                  scalar(7)};
  auto in = [&](int i) { return call.in[i].as<float>(); };
  auto out = [&](int i) { return call.out[i].as<float>(); };
  bfloat16* compute = call.out.size() == 4 ? call.out[3].as<bfloat16>() : nullptr;
  parallel_ranges(call.in[0].type.shape.count(), [&](int64_t begin, int64_t end) {
    adamw_range(in(0) + begin, in(1) + begin, in(2) + begin, in(3) + begin, out(0) + begin,
                out(1) + begin, out(2) + begin, compute ? compute + begin : nullptr, end - begin,
                factors);
  });
}

void run_composed(const KernelCall& call) {
  const AdamW& h = attrs_of(call.attrs).hyperparameters;
  auto in = [&](int i) { return tensor(call, call.in[i]); };
  at::Tensor rate = in(4), g = in(0) * in(7);
  at::Tensor m = in(2) * h.b1 + g * (1 - h.b1);
  at::Tensor v = in(3) * h.b2 + g * g * (1 - h.b2);
  at::Tensor step = (m / in(5)) / (at::sqrt(v / in(6)) + h.epsilon) * rate;
  at::Tensor master = in(1) - in(1) * (rate * h.weight_decay) - step;
  tensor(call, call.out[0]).copy_(master);
  tensor(call, call.out[1]).copy_(m);
  tensor(call, call.out[2]).copy_(v);
  if (call.out.size() == 4) tensor(call, call.out[3]).copy_(master);
}

int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return 8 * in[0].bytes() + 4096;
}

// --- square_sum

// Summed apart and then together, so that the result does not depend on the threads.
constexpr int64_t kBlock = 1 << 16;

int64_t blocks(int64_t count) { return (count + kBlock - 1) / kBlock; }

Types infer_square_sum(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 1, 2, "square_sum");
  Type out{{}, Dtype::float64};
  expect(in.size() == 1 || in[1] == out, "square_sum", "the sum is not a f64 scalar");
  return {out};
}

Cost cost_square_sum(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 2.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse_square_sum(const std::any&, int inputs) {
  return inputs == 2 ? std::vector<Reuse>{{.out = 0, .in = 1}} : std::vector<Reuse>{};
}

int64_t workspace_square_sum(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return blocks(in[0].shape.count()) * size_bytes(Dtype::float64);
}

LONGSHORE_SIMD double square_sum_range(const float* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

void run_square_sum_cpu(const KernelCall& call) {
  const float* x = call.in[0].as<float>();
  int64_t count = call.in[0].type.shape.count();
  double* partial = reinterpret_cast<double*>(call.workspace.data());
  parallel_ranges(blocks(count), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      partial[block] =
          square_sum_range(x + block * kBlock, std::min(kBlock, count - block * kBlock));
  });
  double sum = call.in.size() == 2 ? *call.in[1].as<double>() : 0;
  for (int64_t block = 0; block < blocks(count); ++block) sum += partial[block];
  *call.out[0].as<double>() = sum;
}

void run_square_sum_composed(const KernelCall& call) {
  at::Tensor x = tensor(call, call.in[0]).view({-1});
  at::Tensor sum = x.dot(x).to(at::kDouble);
  tensor(call, call.out[0]).copy_(call.in.size() == 2 ? sum + tensor(call, call.in[1]) : sum);
}

int64_t workspace_square_sum_composed(const std::any&, std::span<const Type>,
                                      std::span<const Type>) {
  return 1 << 16;
}

// --- clip

struct ClipAttrs {
  double threshold;
};

Types infer_clip(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "clip");
  Type scalar{{}, Dtype::float32};
  return {scalar, scalar};
}

Cost cost_clip(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 3, .bytes = operand_bytes(in, out)};
}

std::string print_clip(const std::any& attrs) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "threshold=%g", std::any_cast<ClipAttrs>(attrs).threshold);
  return buffer;
}

void run_clip_cpu(const KernelCall& call) {
  double threshold = std::any_cast<ClipAttrs>(call.attrs).threshold;
  double sum = 0;
  for (int64_t i = 0; i < call.in[0].type.shape.count(); ++i) sum += call.in[0].as<double>()[i];
  double norm = std::sqrt(sum);
  *call.out[0].as<float>() =
      threshold > 0 && norm > threshold ? static_cast<float>(threshold / norm) : 1.f;
  *call.out[1].as<float>() = static_cast<float>(norm);
}

void run_clip_composed(const KernelCall& call) {
  double threshold = std::any_cast<ClipAttrs>(call.attrs).threshold;
  at::Tensor norm = at::sqrt(tensor(call, call.in[0]).sum());
  if (threshold > 0)
    tensor(call, call.out[0]).copy_((threshold / norm).clamp_max(1));
  else
    tensor(call, call.out[0]).fill_(1);
  tensor(call, call.out[1]).copy_(norm);
}

}  // namespace

const Op adamw_op{.name = "adamw",
                  .infer = infer,
                  .cost = cost,
                  .print = print,
                  .reuse = reuse,
                  .cpu = {run_cpu},
                  .cuda = {run_composed, workspace_composed},
                  .reference = {run_composed}};

const Op square_sum_op{.name = "square_sum",
                       .infer = infer_square_sum,
                       .cost = cost_square_sum,
                       .reuse = reuse_square_sum,
                       .cpu = {run_square_sum_cpu, workspace_square_sum},
                       .cuda = {run_square_sum_composed, workspace_square_sum_composed},
                       .reference = {run_square_sum_composed}};

const Op clip_op{.name = "clip",
                 .infer = infer_clip,
                 .cost = cost_clip,
                 .print = print_clip,
                 .cpu = {run_clip_cpu},
                 .cuda = {run_clip_composed, workspace_square_sum_composed},
                 .reference = {run_clip_composed}};

std::vector<Var> adamw(const AdamW& hyperparameters, Dtype compute_dtype, Var gradient,
                       AdamWState state, AdamWScalars scalars) {
  return gradient.trace->emit(adamw_op, Attrs{hyperparameters, compute_dtype},
                              {gradient, state.master, state.m, state.v, scalars.learning_rate,
                               scalars.correction_1, scalars.correction_2, scalars.clip});
}

Var square_sum(Var x) { return x.trace->emit(square_sum_op, {}, {x})[0]; }
Var square_sum(Var x, Var sum) { return x.trace->emit(square_sum_op, {}, {x, sum})[0]; }

Clip clip(Var square_sum, double threshold) {
  auto out = square_sum.trace->emit(clip_op, ClipAttrs{threshold}, {square_sum});
  return {out[0], out[1]};
}

}  // namespace longshore::models
