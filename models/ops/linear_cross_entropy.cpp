#include "models/ops/linear_cross_entropy.h"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "models/backward.h"
#include "models/ops/aten_product.h"
#include "models/ops/infer.h"
#include "models/ops/linear_cross_entropy_kernels.h"
#include "models/ops/onednn_matmul.h"
#include "models/ops/own_kernel.h"
#include "models/ops/simd.h"

namespace longshore::models {
namespace {

struct Attrs {
  double soft_cap;
};

struct GradAttrs {
  double soft_cap;
  bool weight_gradient;
  Dtype weight_gradient_dtype;
};

double soft_cap(const std::any& attrs) { return std::any_cast<const Attrs&>(attrs).soft_cap; }

const GradAttrs& grad_attrs(const std::any& attrs) {
  return std::any_cast<const GradAttrs&>(attrs);
}

Dtype loss_dtype(Dtype dtype) { return dtype == Dtype::float64 ? dtype : Dtype::float32; }

// Tokens whose logits exist at a time: as many as the budget holds, but enough for products to run
// well.
struct ChunkSize {
  int64_t logits_bytes;
  int64_t multiple, least;  // tokens
  // Tokens whose gradients of logits exist at a time, where they are narrower than the logits.
  int64_t least_gradients = 0;
};

// Not much more than caches hold; products of fewer tokens are slower.
constexpr ChunkSize kChunkOnCpu{.logits_bytes = 32 << 20, .multiple = 16, .least = 256};
// Every product reads all of W, and dW's reads and writes that in float32: an H100 moves it as fast
// as it computes from some 250 tokens on, and with dW from 1000.
constexpr ChunkSize kChunkOnCuda{
    .logits_bytes = 128 << 20, .multiple = 256, .least = 256, .least_gradients = 1024};

int64_t chunk_tokens(const ChunkSize& size, int64_t tokens, int64_t vocabulary) {
  int64_t fitting =
      size.logits_bytes / (vocabulary * size_bytes(Dtype::float32)) / size.multiple * size.multiple;
  return std::min(tokens, std::max(fitting, size.least));
}

// --- records

void expect_operands(std::span<const Type> in, const char* op) {
  expect(in[1].shape.rank() == 2 && in[0].shape.back() == in[1].shape[1], op,
         "x [.., C] and W [V,C] do not fit");
  expect(in[0].dtype == in[1].dtype, op, "x and W differ in dtype");
  expect(in[2].dtype == Dtype::int32 && in[2].shape.count() == in[0].shape.rows(), op,
         "targets are not one i32 a token");
}

Types infer(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "linear_cross_entropy");
  expect(soft_cap(attrs) >= 0 && std::isfinite(soft_cap(attrs)), "linear_cross_entropy",
         "soft_cap is neither 0 nor positive and finite");
  expect_operands(in, "linear_cross_entropy");
  return {{{}, loss_dtype(in[0].dtype)}};
}

Types infer_grad(const std::any& any, std::span<const Type> in) {
  expect_inputs(in, 4, 5, "linear_cross_entropy_grad");
  expect_operands(in, "linear_cross_entropy_grad");
  Types out{in[0], {{}, loss_dtype(in[0].dtype)}};
  if (grad_attrs(any).weight_gradient)
    out.push_back({in[1].shape, grad_attrs(any).weight_gradient_dtype});
  expect(in.size() == 4 || (out.size() == 3 && in[4] == out[2]), "linear_cross_entropy_grad",
         "the sum has another type than W's gradient");
  return out;
}

void vjp(Backward& backward, const Node& node) {
  ValueId x = node.in[0], weight = node.in[1];
  GradAttrs attrs{.soft_cap = soft_cap(node.attrs),
                  .weight_gradient = backward.wants_gradient(weight),
                  .weight_gradient_dtype = backward.weight_gradient_dtype()};
  std::vector<ValueId> in{x, weight, node.in[2], backward.gradient(node.out[0])};
  if (attrs.weight_gradient)
    if (ValueId sum = backward.sum_so_far(weight)) in.push_back(sum);
  auto out = backward.emit(linear_cross_entropy_grad_op, attrs, std::move(in), x);
  backward.also_makes(node.out[0], out[1]);
  if (attrs.weight_gradient) backward.replace_sum(weight, out[2]);
  if (backward.wants_gradient(x)) backward.contribute(x, out[0]);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  double logits = static_cast<double>(in[0].shape.rows()) * in[1].shape[0];
  return {.flops = 2.0 * logits * in[1].shape[1], .bytes = operand_bytes(in, out) + 8 * logits};
}

Cost cost_grad(const std::any& any, std::span<const Type> in, std::span<const Type> out) {
  double logits = static_cast<double>(in[0].shape.rows()) * in[1].shape[0];
  double products = grad_attrs(any).weight_gradient ? 3 : 2;
  return {.flops = products * 2.0 * logits * in[1].shape[1],
          .bytes = operand_bytes(in, out) + 16 * logits};
}

std::vector<Reuse> reuse_grad(const std::any& any, int inputs) {
  std::vector<Reuse> choices{{.out = 0, .in = 0}};  // a chunk of x is read before its dx is written
  if (inputs == 5 && grad_attrs(any).weight_gradient) choices.push_back({.out = 2, .in = 4});
  return choices;
}

std::string print_cap(double cap, const char* before) {
  if (cap == 0) return "";
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, "%ssoft_cap=%g", before, cap);
  return buffer;
}

std::string print(const std::any& attrs) { return print_cap(soft_cap(attrs), ""); }

std::string print_grad(const std::any& any) {
  const GradAttrs& attrs = grad_attrs(any);
  return (attrs.weight_gradient ? "input and weight" : "input") + print_cap(attrs.soft_cap, ", ");
}

// --- products and memory

struct Products {
  Matmul logits, dx, dweight_first, dweight;
};

Products products(const Type& x, const Type& weight, Dtype gradient, int64_t tokens) {
  int64_t v = weight.shape[0], c = weight.shape[1];
  Products p;
  p.logits = {.m = tokens,
              .n = v,
              .k = c,
              .ab = x.dtype,
              .c = Dtype::float32,
              .b_layout = Layout::transposed};
  p.dx = {.m = tokens, .n = c, .k = v, .ab = x.dtype, .c = x.dtype};
  p.dweight_first = {
      .m = v, .n = c, .k = tokens, .ab = x.dtype, .c = gradient, .a_layout = Layout::transposed};
  p.dweight = p.dweight_first;
  p.dweight.into = Into::add;
  return p;
}

// The workspace, cut into its parts at these offsets, and the tokens of a chunk, which has its
// logits at a time, and of a group of chunks, which has their gradients. Those that are float32
// take the logits' place: they have no part.
struct WorkspaceParts {
  int64_t chunk, group, logits, dlogits, losses, scratch, bytes;
};

// How many there are of each when so many are cut into parts.
std::vector<int64_t> sizes_of_parts(int64_t count, int64_t part) {
  std::vector<int64_t> sizes;
  for (int64_t size : {std::min(count, part), count % part})
    if (size > 0) sizes.push_back(size);
  return sizes;
}

int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// `scratch_bytes(matmul)` is what a product takes. No attrs: the loss alone.
template <class ScratchBytes>
WorkspaceParts workspace_parts(std::span<const Type> in, const GradAttrs* attrs,
                               const ChunkSize& chunk_size, ScratchBytes scratch_bytes) {
  const int64_t tokens = in[0].shape.rows(), v = in[1].shape[0];
  const bool has_sum = in.size() == 5;
  WorkspaceParts l{};
  l.chunk = chunk_tokens(chunk_size, tokens, v);
  l.dlogits = l.logits + aligned(l.chunk * v * size_bytes(Dtype::float32));
  const bool narrow = attrs && in[0].dtype == Dtype::bfloat16;
  l.group = narrow ? std::min(tokens, std::max(l.chunk, chunk_size.least_gradients)) : l.chunk;
  l.losses = l.dlogits + (narrow ? aligned(l.group * v * size_bytes(in[0].dtype)) : 0);
  l.scratch = l.losses + aligned(tokens * size_bytes(Dtype::float32));
  int64_t scratch = 0;
  auto need = [&](const Matmul& matmul) { scratch = std::max(scratch, scratch_bytes(matmul)); };
  auto products_of = [&](int64_t size) {
    return products(in[0], in[1], attrs ? attrs->weight_gradient_dtype : Dtype::float32, size);
  };
  for (int64_t group : sizes_of_parts(tokens, l.group)) {
    for (int64_t chunk : sizes_of_parts(group, l.chunk)) need(products_of(chunk).logits);
    if (!attrs) continue;
    const Products p = products_of(group);
    need(p.dx);
    if (!attrs->weight_gradient) continue;
    if (!has_sum && group == l.group) need(p.dweight_first);
    if (has_sum || tokens > l.group) need(p.dweight);
  }
  l.bytes = l.scratch + scratch;
  return l;
}

WorkspaceParts workspace_parts_cpu(std::span<const Type> in, const GradAttrs* attrs) {
  return workspace_parts(in, attrs, kChunkOnCpu, workspace_bytes);
}

WorkspaceParts workspace_parts_cuda(std::span<const Type> in, const GradAttrs* attrs) {
  return workspace_parts(in, attrs, kChunkOnCuda, cublaslt_workspace_bytes);
}

// --- CPU

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

LONGSHORE_INLINE float cap_slope(float capped, float cap) {
  return 1.f - (capped / cap) * (capped / cap);
}

// The same of capped logits, whose slopes 1 - (capped / cap)² the gradient has as factors. The
// capped logits stay for them, so the exponentials are made twice.
template <class T>
LONGSHORE_INLINE float capped_token_loss(float* logits, int32_t target, float cap, T* dlogits,
                                         float scale, int64_t v) {
#pragma omp simd
  for (int64_t i = 0; i < v; ++i) logits[i] = cap * tanh_fast(logits[i] / cap);
  float largest = largest_of(logits, v), at_target = logits[target], sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < v; ++i) sum += exp_fast(logits[i] - largest);
  float loss = largest + std::log(sum) - at_target;
  if (!dlogits) return loss;
  float factor = scale / sum;
#pragma omp simd
  for (int64_t i = 0; i < v; ++i)
    store(dlogits[i], exp_fast(logits[i] - largest) * factor * cap_slope(logits[i], cap));
  store(dlogits[target],
        (exp_fast(at_target - largest) * factor - scale) * cap_slope(at_target, cap));
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
  bool has_sum;   // dweight holds something already
  float scale;
};

float run_chunks(const KernelCall& call, const WorkspaceParts& l, double soft_cap, Dtype gradient,
                 const Gradients* grads) {
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
    Products p = products(x, weight, gradient, size);
    const std::byte* x_chunk = call.in[0].as<std::byte>() + begin * c * element;
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
    });
  }
  double total = 0;
  for (int64_t i = 0; i < tokens; ++i) total += losses[i];
  return static_cast<float>(total);
}

int64_t workspace_cpu(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return workspace_parts_cpu(in, nullptr).bytes;
}

int64_t workspace_grad_cpu(const std::any& attrs, std::span<const Type> in, std::span<const Type>) {
  return workspace_parts_cpu(in, &grad_attrs(attrs)).bytes;
}

void run_cpu(const KernelCall& call) {
  WorkspaceParts l = workspace_parts_cpu(types_of(call.in), nullptr);
  *call.out[0].as<float>() = run_chunks(call, l, soft_cap(call.attrs), Dtype::float32, nullptr);
}

void run_grad_cpu(const KernelCall& call) {
  const GradAttrs& attrs = grad_attrs(call.attrs);
  bool has_sum = call.in.size() == 5;
  WorkspaceParts l = workspace_parts_cpu(types_of(call.in), &attrs);
  if (has_sum && call.in[4].data != call.out[2].data)
    std::memcpy(call.out[2].data, call.in[4].data, call.out[2].type.bytes());
  Gradients grads{.dx = call.out[0].data,
                  .dweight = attrs.weight_gradient ? call.out[2].data : nullptr,
                  .has_sum = has_sum,
                  .scale = *call.in[3].as<float>()};
  *call.out[1].as<float>() =
      run_chunks(call, l, attrs.soft_cap, attrs.weight_gradient_dtype, &grads);
}

// --- composition

const ChunkSize& chunk_size(Target target) { return is_cuda(target) ? kChunkOnCuda : kChunkOnCpu; }

at::Tensor wide_product(const KernelCall& call, const at::Tensor& a, const at::Tensor& b,
                        at::ScalarType dtype) {
  if (a.scalar_type() == dtype) return at::mm(a, b);
  if (is_cuda(call.target)) return at::mm(a, b, dtype);
  return at::mm(a.to(dtype), b.to(dtype));
}

void run_chunks_composed(const KernelCall& call, double cap, const GradAttrs* attrs) {
  auto wide = compute_type(call.in[0]);
  at::Tensor x = matrix(call, call.in[0]), weight = tensor(call, call.in[1]);
  at::Tensor targets = tensor(call, call.in[2]).view({-1});
  int64_t tokens = x.size(0);
  int64_t chunk = chunk_tokens(chunk_size(call.target), tokens, weight.size(0));
  at::Tensor loss = at::zeros({}, x.options().dtype(wide));
  at::Tensor dweight;
  if (attrs && attrs->weight_gradient) {
    dweight = tensor(call, call.out[2]);
    if (call.in.size() == 5)
      dweight.copy_(tensor(call, call.in[4]));
    else
      dweight.zero_();
  }
  for (int64_t begin = 0; begin < tokens; begin += chunk) {
    int64_t size = std::min(chunk, tokens - begin);
    at::Tensor x_chunk = x.narrow(0, begin, size);
    at::Tensor target = targets.narrow(0, begin, size).to(at::kLong).unsqueeze(-1);
    at::Tensor trained = target.ne(kIgnoredTarget), index = target.clamp_min(0);
    at::Tensor logits = wide_product(call, x_chunk, weight.t(), wide);
    at::Tensor slope;
    if (cap > 0) {
      logits.div_(cap).tanh_();
      if (attrs) slope = 1 - logits.square();
      logits.mul_(cap);
    }
    at::Tensor logp = at::log_softmax(logits, -1);
    logits.reset();
    loss.sub_(logp.gather(-1, index).masked_fill(trained.logical_not(), 0).sum());
    if (!attrs) continue;
    at::Tensor dlogits = logp.exp_();
    dlogits.scatter_add_(-1, index, at::zeros_like(index, dlogits.options()).sub_(1));
    dlogits.mul_(trained).mul_(tensor(call, call.in[3]).to(wide));
    if (slope.defined()) dlogits.mul_(slope);
    at::Tensor narrow = dlogits.to(x.scalar_type());
    if (dweight.defined())
      dweight.add_(wide_product(call, narrow.t(), x_chunk, dweight.scalar_type()));
    matrix(call, call.out[0]).narrow(0, begin, size).copy_(at::mm(narrow, weight));
  }
  tensor(call, call.out[attrs ? 1 : 0]).copy_(loss);
}

void run_composed(const KernelCall& call) {
  run_chunks_composed(call, soft_cap(call.attrs), nullptr);
}
void run_grad_composed(const KernelCall& call) {
  const GradAttrs& attrs = grad_attrs(call.attrs);
  run_chunks_composed(call, attrs.soft_cap, &attrs);
}

int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  int64_t v = in[1].shape[0], chunk = chunk_tokens(kChunkOnCuda, in[0].shape.rows(), v);
  return 3 * chunk * v * size_bytes(Dtype::float32) + 64 * chunk + (1 << 20);
}

int64_t workspace_grad_composed(const std::any& any, std::span<const Type> in,
                                std::span<const Type> out) {
  const GradAttrs& attrs = grad_attrs(any);
  int64_t v = in[1].shape[0], chunk = chunk_tokens(kChunkOnCuda, in[0].shape.rows(), v);
  int64_t slopes = attrs.soft_cap > 0 ? 2 * chunk * v * size_bytes(Dtype::float32) : 0;
  int64_t dweight = attrs.weight_gradient ? out[2].bytes() : 0;
  return workspace_composed(any, in, out) + slopes + dweight + in[0].bytes();
}

// --- own kernels on CUDA: a chunk's losses and gradients in one kernel

void run_chunks_own(const KernelCall& call, double cap, const GradAttrs* attrs, RunProduct run,
                    LaunchCrossEntropyRows launch_rows, LaunchTotalLoss launch_total) {
  const Type &x = call.in[0].type, &weight = call.in[1].type;
  const int64_t tokens = x.shape.rows(), v = weight.shape[0], c = weight.shape[1];
  const int64_t element = size_bytes(x.dtype);
  const bool has_sum = call.in.size() == 5;
  const Dtype gradient = attrs ? attrs->weight_gradient_dtype : Dtype::float32;
  const WorkspaceParts l = workspace_parts_cuda(types_of(call.in), attrs);
  auto at = [&](int64_t offset) { return call.workspace.data() + offset; };
  auto x_from = [&](int64_t token) { return call.in[0].as<std::byte>() + token * c * element; };
  float* losses = reinterpret_cast<float*>(at(l.losses));
  std::byte* dlogits = at(l.losses > l.dlogits ? l.dlogits : l.logits);
  auto multiply = [&](const Matmul& product, const void* a, const void* b, const void* sum,
                      void* to) {
    run(product, a, b, sum, to, call.workspace.subspan(l.scratch), call.stream);
  };
  for (int64_t begin = 0; begin < tokens; begin += l.group) {
    const int64_t end = std::min(begin + l.group, tokens);
    for (int64_t token = begin; token < end; token += l.chunk) {
      const int64_t rows = std::min(l.chunk, end - token);
      multiply(products(x, weight, gradient, rows).logits, x_from(token), call.in[1].data, nullptr,
               at(l.logits));
      launch_rows({.rows = rows,
                   .vocabulary = v,
                   .logits = reinterpret_cast<float*>(at(l.logits)),
                   .targets = call.in[2].as<int32_t>() + token,
                   .cap = static_cast<float>(cap),
                   .losses = losses + token,
                   .dtype = x.dtype,
                   .dlogits = attrs ? dlogits + (token - begin) * v * element : nullptr,
                   .dloss = attrs ? call.in[3].as<float>() : nullptr},
                  call.stream);
    }
    if (!attrs) continue;
    const Products p = products(x, weight, gradient, end - begin);
    // The weight's first: dx may take x's place.
    if (attrs->weight_gradient) {
      const bool adds = begin > 0 || has_sum;
      multiply(adds ? p.dweight : p.dweight_first, dlogits, x_from(begin),
               begin > 0 ? call.out[2].data
               : has_sum ? call.in[4].data
                         : nullptr,
               call.out[2].data);
    }
    multiply(p.dx, dlogits, call.in[1].data, nullptr,
             call.out[0].as<std::byte>() + begin * c * element);
  }
  launch_total({tokens, losses, call.out[attrs ? 1 : 0].as<float>()}, call.stream);
}

int64_t workspace_own(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return workspace_parts_cuda(in, nullptr).bytes;
}
int64_t workspace_grad_own(const std::any& attrs, std::span<const Type> in, std::span<const Type>) {
  return workspace_parts_cuda(in, &grad_attrs(attrs)).bytes;
}

}  // namespace

void run_linear_cross_entropy(const KernelCall& call, RunProduct run, LaunchCrossEntropyRows rows,
                              LaunchTotalLoss total) {
  run_chunks_own(call, soft_cap(call.attrs), nullptr, run, rows, total);
}

void run_linear_cross_entropy_grad(const KernelCall& call, RunProduct run,
                                   LaunchCrossEntropyRows rows, LaunchTotalLoss total) {
  const GradAttrs& attrs = grad_attrs(call.attrs);
  run_chunks_own(call, attrs.soft_cap, &attrs, run, rows, total);
}

const Op linear_cross_entropy_op{
    .name = "linear_cross_entropy",
    .infer = infer,
    .vjp = vjp,
    .cost = cost,
    .print = print,
    .op_class = OpClass::matmul,
    .cpu = {run_cpu, workspace_cpu},
    .cuda = {kernel_of_parts<run_linear_cross_entropy, run_cublaslt, launch_cross_entropy_rows,
                             launch_total_loss>(),
             workspace_own},
    .cuda_composed = {run_composed, workspace_composed},
    .reference = {run_composed}};

const Op linear_cross_entropy_grad_op{
    .name = "linear_cross_entropy_grad",
    .infer = infer_grad,
    .cost = cost_grad,
    .print = print_grad,
    .reuse = reuse_grad,
    .op_class = OpClass::matmul,
    .cpu = {run_grad_cpu, workspace_grad_cpu},
    .cuda = {kernel_of_parts<run_linear_cross_entropy_grad, run_cublaslt, launch_cross_entropy_rows,
                             launch_total_loss>(),
             workspace_grad_own},
    .cuda_composed = {run_grad_composed, workspace_grad_composed},
    .reference = {run_grad_composed}};

Var linear_cross_entropy(Var x, Var weight, Var targets, const LinearCrossEntropyOptions& options) {
  return x.trace->emit(linear_cross_entropy_op, Attrs{options.soft_cap}, {x, weight, targets})[0];
}

}  // namespace longshore::models
