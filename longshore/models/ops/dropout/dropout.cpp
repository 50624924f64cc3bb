#include "longshore/models/ops/dropout/dropout.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/dropout/dropout_kernels.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/philox_words.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

static_assert(kPhiloxLanes == kDropoutBlocks);

DropoutOptions options_of(const std::any& attrs) { return std::any_cast<DropoutOptions>(attrs); }

Types infer(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "dropout");
  const double probability = options_of(attrs).probability;
  expect(probability >= 0 && probability < 1, "dropout",
         "the probability is not from 0 to below 1");
  expect(in[0].shape.rank() > 0 && in[1] == Type{{in[0].shape[0]}, Dtype::int32}, "dropout",
         "the rows' numbers are not i32 [B]");
  expect(in[2] == Type{{1}, Dtype::float32}, "dropout", "the layer's number is not f32 [1]");
  return {in[0]};
}

void vjp(Backward& backward, const Node& node) {
  const ValueId x = node.in[0];
  backward.contribute(
      x, backward.emit(dropout_op, node.attrs,
                       {backward.gradient(node.out[0]), node.in[1], node.in[2]}, x)[0]);
}

// The ten rounds of Philox's products and sums for each four numbers.
Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  constexpr double kOfNumber = 25;
  return {.flops = kOfNumber * static_cast<double>(out[0].shape.count()),
          .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

std::string print(const std::any& attrs) {
  return print_number("probability", options_of(attrs).probability);
}

// --- CPU

template <class T>
LONGSHORE_INLINE void apply_body(const uint32_t* words, uint32_t threshold, float factor,
                                 const T* x, T* out, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float kept = load(x[i]) * factor;
    store(out[i], words[i] < threshold ? 0.f : kept);
  }
}
LONGSHORE_SIMD void apply(const uint32_t* words, uint32_t threshold, float factor, const float* x,
                          float* out, int64_t count) {
  apply_body(words, threshold, factor, x, out, count);
}
LONGSHORE_SIMD void apply(const uint32_t* words, uint32_t threshold, float factor,
                          const bfloat16* x, bfloat16* out, int64_t count) {
  apply_body(words, threshold, factor, x, out, count);
}

void run_cpu(const KernelCall& call) {
  const DropoutArguments a = dropout_arguments(call);
  const int64_t groups = ceil_div(a.row_size, kDropoutGroup);
  with_float_type(a.dtype, [&]<class T>(T) {
    parallel_ranges(a.rows * groups, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / groups, group = i % groups, at = group * kDropoutGroup;
        PhiloxWords drawn;
        draw_philox_words(
            dropout_counter(group * kDropoutBlocks, a.row_numbers[row], a.sequence, *a.layer),
            a.seed, drawn);
        const int64_t offset = row * a.row_size + at;
        apply(drawn.words[0], a.threshold, a.factor, static_cast<const T*>(a.x) + offset,
              static_cast<T*>(a.out) + offset, std::min(kDropoutGroup, a.row_size - at));
      }
    });
  });
}

// --- composition

constexpr int64_t kWord = int64_t{0xffffffff};

// longshore/base/philox.h's rounds, in place, on words of 32 bits [..,4,..] in int64: products are
// right there in all their bits.
void philox_rounds(const at::Tensor& words, int64_t dim, uint64_t seed) {
  const at::Tensor c0 = words.select(dim, 0), c1 = words.select(dim, 1), c2 = words.select(dim, 2),
                   c3 = words.select(dim, 3);
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  const auto high_of = [](const at::Tensor& product) {
    return product.bitwise_right_shift(32).bitwise_and_(kWord);
  };
  for (int round = 0; round < 10; ++round) {
    const at::Tensor product0 = c0 * int64_t{0xD2511F53}, product1 = c2 * int64_t{0xCD9E8D57};
    c0.copy_(high_of(product1).bitwise_xor_(c1).bitwise_xor_(int64_t{key0}));
    c1.copy_(product1).bitwise_and_(kWord);
    c2.copy_(high_of(product0).bitwise_xor_(c3).bitwise_xor_(int64_t{key1}));
    c3.copy_(product0).bitwise_and_(kWord);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

constexpr int64_t kComposedBlocks = int64_t{1} << 18;  // at a time, of all rows

int64_t composed_blocks_of_row(int64_t rows, int64_t row_size) {
  const int64_t groups = std::max<int64_t>(1, kComposedBlocks / (rows * kDropoutBlocks));
  return std::min(groups, ceil_div(row_size, kDropoutGroup)) * kDropoutBlocks;
}

void run_composed(const KernelCall& call) {
  const DropoutArguments a = dropout_arguments(call);
  const at::Tensor x = tensor(call, call.in[0]).view({a.rows, a.row_size});
  const at::Tensor out = tensor(call, call.out[0]).view({a.rows, a.row_size});
  const at::Tensor row =
      tensor(call, call.in[1]).to(at::kLong).bitwise_and_(kWord).view({-1, 1, 1});
  const PhiloxBlock of_layer_0 = dropout_counter(0, 0, a.sequence, 0);
  const int64_t of_layer = dropout_counter(0, 0, 0, 1)[2];
  const at::Tensor sequence =
      (tensor(call, call.in[2]).to(at::kLong) * of_layer + int64_t{of_layer_0[2]})
          .bitwise_and_(kWord)
          .view({1, 1, 1});
  const double kept = 1 - options_of(call.attrs).probability;
  const int64_t step = composed_blocks_of_row(a.rows, a.row_size);
  for (int64_t first = 0; 4 * first < a.row_size; first += step) {
    const int64_t at = 4 * first, length = std::min(4 * step, a.row_size - at);
    const PhiloxBlock counter = dropout_counter(first, 0, 0, 0);
    const int64_t groups = step / kDropoutBlocks;
    // Allocated first, so that what a round allocates is given back in the order of a stack.
    const at::Tensor words = at::empty({a.rows, groups, 4, kDropoutBlocks}, row.options());
    words.select(2, 0).copy_(
        at::arange(step, row.options()).add_(int64_t{counter[0]}).view({1, groups, -1}));
    words.select(2, 0).bitwise_and_(kWord);
    words.select(2, 1).copy_(row);
    words.select(2, 2).copy_(sequence);
    words.select(2, 3).fill_(int64_t{counter[3]});
    philox_rounds(words, 2, a.seed);
    const at::Tensor drop = words.lt(int64_t{a.threshold}).view({a.rows, -1}).narrow(1, 0, length);
    out.narrow(1, at, length)
        .copy_(
            x.narrow(1, at, length).to(compute_type(call.in[0])).div(kept).masked_fill_(drop, 0));
  }
}

int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  const int64_t rows = in[0].shape[0], row_size = in[0].shape.count() / rows;
  constexpr int64_t kTensors = 11;  // of an int64 for each Philox block, at most, at once
  return kTensors * allocated_bytes(rows * composed_blocks_of_row(rows, row_size) *
                                    int64_t{sizeof(int64_t)}) +
         8 * allocated_bytes(rows * int64_t{sizeof(int64_t)}) + (1 << 14);
}

}  // namespace

DropoutArguments dropout_arguments(const KernelCall& call) {
  const DropoutOptions options = options_of(call.attrs);
  const Shape& shape = call.in[0].type.shape;
  return {.dtype = call.in[0].type.dtype,
          .rows = shape[0],
          .row_size = shape.count() / shape[0],
          .threshold = static_cast<uint32_t>(std::llround(options.probability * 0x1p32)),
          .factor = static_cast<float>(1 / (1 - options.probability)),
          .seed = options.seed,
          .sequence = options.sequence,
          .row_numbers = call.in[1].as<int32_t>(),
          .layer = call.in[2].as<float>(),
          .x = call.in[0].data,
          .out = call.out[0].data};
}

const Op dropout_op{.name = "dropout",
                    .infer = infer,
                    .vjp = vjp,
                    .cost = cost,
                    .print = print,
                    .reuse = reuse,
                    .recompute_cost = RecomputeCost::low,
                    .cpu = {run_cpu},
                    .cuda = {custom_kernel<launch_dropout, dropout_arguments>()},
                    .cuda_composed = {run_composed, workspace_composed},
                    .reference = {run_composed}};

Var dropout(Var x, Var row_numbers, Var layer, const DropoutOptions& options) {
  return x.trace->emit(dropout_op, options, {x, row_numbers, layer})[0];
}

}  // namespace longshore::models
