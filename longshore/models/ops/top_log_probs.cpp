#include "longshore/models/ops/top_log_probs.h"

#include <ATen/ops/logsumexp.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten_product.h"
#include "longshore/models/ops/kernels/onednn_matmul.h"
#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy_chunks.h"
#include "longshore/models/ops/linear_cross_entropy/wide_product.h"

namespace longshore::models {
namespace {

const TopLogProbsOptions& options_of(const std::any& attrs) {
  return std::any_cast<const TopLogProbsOptions&>(attrs);
}

Types infer(const std::any& attrs, std::span<const Type> in) {
  const char* const op = "top_log_probs";
  expect_inputs(in, 2, 4, op);
  expect(in.size() != 3, op, "z is there without U");
  for (size_t i = 0; i + 1 < in.size(); i += 2) {
    expect(in[i + 1].shape.rank() == 2 && in[i].shape.back() == in[i + 1].shape[1] &&
               in[i + 1].shape[0] == in[1].shape[0] && in[i].shape.rows() == in[0].shape.rows(),
           op, "x [.., C] and W [V,C], or z and U, do not fit");
    expect(in[i].dtype == in[0].dtype && in[i + 1].dtype == in[0].dtype, op,
           "operands differ in dtype");
  }
  const int64_t count = options_of(attrs).count;
  expect(count > 0 && count <= in[1].shape[0], op, "no tokens, or more than there are");
  const Shape shape = in[0].shape.with_back(count);
  return {{shape, Dtype::int32}, {shape, reduction_dtype(in[0].dtype)}};
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  const double logits = static_cast<double>(in[0].shape.rows()) * in[1].shape[0];
  const auto width =
      static_cast<double>(in[1].shape[1] + (in.size() > 2 ? in[3].shape[1] : int64_t{0}));
  return {.flops = 2 * width * logits, .bytes = operand_bytes(in, out) + 8 * logits};
}

std::string print(const std::any& attrs) {
  const TopLogProbsOptions& o = options_of(attrs);
  return "count=" + std::to_string(o.count) +
         (o.soft_cap > 0 ? ", " + print_number("soft_cap", o.soft_cap) : "");
}

// --- CPU

// The products of so many positions: of z and U where there are, to whose logits the others are
// added.
struct Products {
  std::optional<Matmul> beside;
  Matmul logits;
};

Products products(std::span<const Type> in, int64_t positions) {
  const bool has_beside = in.size() > 2;
  const auto logits_of = [&](size_t first, Into into) {
    return cross_entropy_products(in[first], in[first + 1], Dtype::float32, positions, into).logits;
  };
  return {has_beside ? std::optional(logits_of(2, Into::overwrite)) : std::nullopt,
          logits_of(0, has_beside ? Into::add : Into::overwrite)};
}

int64_t positions_at_a_time(std::span<const Type> in) {
  return chunk_tokens(kChunkOnCpu, in[0].shape.rows(), in[1].shape[0]);
}

// Of the logits of positions, behind which the products' scratch lies.
int64_t logits_bytes(std::span<const Type> in) {
  return round_up(positions_at_a_time(in) * in[1].shape[0] * size_bytes(Dtype::float32), 256);
}

int64_t workspace_cpu(const std::any&, std::span<const Type> in, std::span<const Type>) {
  const int64_t chunk = positions_at_a_time(in);
  int64_t scratch = 0;
  for (const int64_t positions : {chunk, in[0].shape.rows() % chunk}) {
    if (positions == 0) continue;
    const Products all = products(in, positions);
    scratch = std::max(scratch, workspace_bytes(all.logits));
    if (all.beside) scratch = std::max(scratch, workspace_bytes(*all.beside));
  }
  return logits_bytes(in) + scratch;
}

// Those of a row of logits, which are capped first.
void find_top(const TopLogProbsOptions& o, std::span<float> logits, int32_t* tokens,
              float* log_probs) {
  if (o.soft_cap > 0)
    for (float& logit : logits)
      logit = static_cast<float>(o.soft_cap * std::tanh(logit / o.soft_cap));
  bool has_nan = false;  // which has no place in an order
  for (float& logit : logits) {
    has_nan |= std::isnan(logit);
    if (std::isnan(logit)) logit = -std::numeric_limits<float>::infinity();
  }
  const float largest = *std::ranges::max_element(logits);
  double sum = has_nan ? std::numeric_limits<double>::quiet_NaN() : 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  const double log_sum_exp = largest + std::log(sum);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto is_before = [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + o.count, order.end(), is_before);
  for (int64_t i = 0; i < o.count; ++i) {
    tokens[i] = order[static_cast<size_t>(i)];
    log_probs[i] = static_cast<float>(logits[tokens[i]] - log_sum_exp);
  }
}

void run_cpu(const KernelCall& call) {
  const TopLogProbsOptions& o = options_of(call.attrs);
  const Types in = types_of(call.in);
  const int64_t rows = in[0].shape.rows(), v = in[1].shape[0], chunk = positions_at_a_time(in);
  auto* const logits = reinterpret_cast<float*>(call.workspace.data());
  const std::span<std::byte> scratch = call.workspace.subspan(logits_bytes(in));
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t size = std::min(chunk, rows - begin);
    const auto multiply = [&](const Matmul& product, size_t first) {
      const int64_t offset = begin * in[first].shape.back() * size_bytes(in[first].dtype);
      run(product, call.in[first].as<std::byte>() + offset, call.in[first + 1].data, logits,
          scratch);
    };
    const Products all = products(in, size);
    if (all.beside) multiply(*all.beside, 2);
    multiply(all.logits, 0);
    parallel_ranges(size, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row)
        find_top(o, {logits + row * v, static_cast<size_t>(v)},
                 call.out[0].as<int32_t>() + (begin + row) * o.count,
                 call.out[1].as<float>() + (begin + row) * o.count);
    });
  }
}

// --- composition

void run_composed(const KernelCall& call) {
  const TopLogProbsOptions& o = options_of(call.attrs);
  const at::ScalarType wide = compute_type(call.in[0]);
  const at::Tensor x = matrix(call, call.in[0]), weight = tensor(call, call.in[1]);
  at::Tensor z, z_weight;
  if (call.in.size() > 2) {
    z = matrix(call, call.in[2]);
    z_weight = tensor(call, call.in[3]);
  }
  const at::Tensor tokens = matrix(call, call.out[0]), log_probs = matrix(call, call.out[1]);
  const int64_t rows = x.size(0),
                chunk = chunk_tokens(composed_chunk_size(call.target), rows, weight.size(0));
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t size = std::min(chunk, rows - begin);
    at::Tensor logits = wide_product(call, x.narrow(0, begin, size), weight.t(), wide);
    if (z.defined()) logits.add_(wide_product(call, z.narrow(0, begin, size), z_weight.t(), wide));
    if (o.soft_cap > 0) logits.div_(o.soft_cap).tanh_().mul_(o.soft_cap);
    const auto [values, indices] = at::topk(logits, o.count, -1);
    tokens.narrow(0, begin, size).copy_(indices);
    log_probs.narrow(0, begin, size).copy_(values - at::logsumexp(logits, -1, true));
  }
}

int64_t workspace_composed(const std::any& attrs, std::span<const Type> in, std::span<const Type>) {
  const int64_t v = in[1].shape[0], chunk = chunk_tokens(kChunkOnCuda, in[0].shape.rows(), v);
  constexpr int64_t kLogits = 4;  // and what their maximum, sorting and sum take
  return kLogits * chunk * v * size_bytes(Dtype::float32) + 64 * chunk * options_of(attrs).count +
         (8 << 20);
}

}  // namespace

const Op top_log_probs_op{.name = "top_log_probs",
                          .infer = infer,
                          .cost = cost,
                          .print = print,
                          .op_class = OpClass::matmul,
                          .cpu = {run_cpu, workspace_cpu},
                          .cuda = {run_composed, workspace_composed},
                          .reference = {run_composed}};

TopLogProbs top_log_probs(Var x, Var weight, const TopLogProbsOptions& options,
                          const std::optional<FrozenLogits>& beside) {
  std::vector<Var> in{x, weight};
  if (beside) in.insert(in.end(), {beside->input, beside->weight});
  const std::vector<Var> out = x.trace->emit(top_log_probs_op, options, in);
  return {out[0], out[1]};
}

}  // namespace longshore::models
