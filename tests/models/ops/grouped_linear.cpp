// Experts with many rows, with few and with none, in both layouts.
#include "longshore/models/ops/grouped_linear/grouped_linear.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/grouped_linear/grouped_linear_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"

namespace longshore::models {
namespace {

struct GroupedShape {
  std::vector<int32_t> rows;  // of each expert
  int64_t n, k;
  Layout layout = Layout::transposed;
};

std::vector<int32_t> ends_of(const GroupedShape& shape) {
  std::vector<int32_t> ends;
  int32_t end = 0;
  for (int32_t rows : shape.rows) ends.push_back(end += rows);
  return ends;
}

// Where it is square, W is used twice, the second time of what the first gives and added to x.
OpCase grouped_linear_case(const GroupedShape& shape) {
  const std::vector<int32_t> ends = ends_of(shape);
  const auto experts = static_cast<int64_t>(ends.size());
  const bool is_plain = shape.layout == Layout::plain, is_square = shape.n == shape.k;
  return {
      .name = named("grouped_linear", experts, ends.back(), shape.n, shape.k) +
              (is_plain ? ", plain" : ""),
      .trace =
          [=](Dtype dtype) {
            const auto [n, k] = std::pair{shape.n, shape.k};
            Trace trace("grouped_linear");
            Var x = trace.input("x", {{ends.back(), k}, dtype});
            Var w = trace.weight(
                "w", {is_plain ? Shape{experts, k, n} : Shape{experts, n, k}, dtype}, kTrained);
            Var rows = trace.batch("ends", ints({experts}));
            Var y = grouped_linear(x, w, rows, shape.layout);
            trace.output(y);
            if (is_square) trace.output(grouped_linear(y, w, rows, shape.layout, x));
            return trace.finish();
          },
      .integers = {{"ends", at::tensor(ends, at::kInt)}},
      .plain =
          [=](const Tensors& in) {
            auto product = [&](const at::Tensor& x) {
              std::vector<at::Tensor> parts;
              for (int64_t e = 0, begin = 0; e < experts; begin = ends[e++]) {
                const at::Tensor w = in.at("w")[e];
                parts.push_back(x.narrow(0, begin, ends[e] - begin).matmul(is_plain ? w : w.t()));
              }
              return at::cat(parts);
            };
            std::vector<at::Tensor> out{product(in.at("x"))};
            if (is_square) out.push_back(in.at("x") + product(out[0]));
            return out;
          },
      .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      grouped_linear_case({{2, 0, 3}, 2, 4}),
      grouped_linear_case({{0, 1, 2}, 3, 2, Layout::plain}),
      grouped_linear_case({{1, 1}, 3, 3}),
  };
}

std::vector<OpCase> large() {
  return {
      grouped_linear_case({{700, 0, 20, 1030}, 48, 40}),
      grouped_linear_case({{0, 130, 64}, 72, 72, Layout::plain}),
      grouped_linear_case({{3, 1, 0, 17, 0, 0, 2, 40, 1}, 33, 65}),
      grouped_linear_case({{0, 0, 300}, 64, 31, Layout::plain}),
      grouped_linear_case({{200, 1, 90}, 136, 200}),
      grouped_linear_case({{90, 0, 70}, 200, 136}),
  };
}

// Qwen 3 30B-A3B's.
std::vector<OpCase> real() {
  return {grouped_linear_case({{300, 0, 517, 20, 1, 700, 8, 46}, 768, 2048}),
          grouped_linear_case({{40, 8, 0, 1, 90, 3, 64, 50}, 2048, 768, Layout::plain})};
}

constexpr OpTraits kOps[] = {
    {.op = &grouped_linear_op,
     .tolerance = {1e-5, kRounding},
     .emulated = emulated_launch<grouped_linear_arguments>()},
    {.op = &grouped_linear_input_grad_op,
     .tolerance = {1e-5, kRounding},
     .emulated = emulated_launch<grouped_linear_input_grad_arguments>()},
    {.op = &grouped_linear_weight_grad_op,
     .tolerance = {1e-5, 1e-5},
     .emulated = emulated_launch<grouped_linear_weight_grad_arguments>()},
};

}  // namespace

extern constinit const OpRecord grouped_linear_record{kOps, small, large, real};

}  // namespace longshore::models
