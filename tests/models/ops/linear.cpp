// Alone, added to a sum, and as LoRA has it.
#include "longshore/models/ops/linear/linear.h"

#include "longshore/models/families/lora.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/linear/linear_kernels.h"
#include "tests/models/emulated_product.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

OpCase linear_case(int64_t b, int64_t t, int64_t k, int64_t n) {
  return {
      .name = named("linear", b, t, k, n),
      .trace =
          [=](Dtype dtype) {
            Trace trace("linear");
            Var x = trace.input("x", {{b, t, k}, dtype});
            trace.output(linear(x, trace.weight("w", {{n, k}, dtype}, kTrained)));
            return trace.finish();
          },
      .integers = {},
      .plain = [](const Tensors& in) { return std::vector{plain::linear(in.at("x"), in.at("w"))}; },
      .adjust = {}};
}

// x and w are used twice each, and an intermediate value is an output too.
OpCase shared_linear_case(int64_t b, int64_t t, int64_t k, int64_t n) {
  return {.name = named("linear, shared", b, t, k, n),
          .trace =
              [=](Dtype dtype) {
                Trace trace("shared_linear");
                Var x = trace.input("x", {{b, t, k}, dtype});
                Var w = trace.weight("w", {{k, k}, dtype}, kTrained);
                Var first = linear(x, w);
                trace.output(first);
                trace.output(linear(first, w));
                trace.output(linear(x, trace.weight("u", {{n, k}, dtype}, kTrained)));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor first = plain::linear(in.at("x"), in.at("w"));
                return std::vector{first, plain::linear(first, in.at("w")),
                                   plain::linear(in.at("x"), in.at("u"))};
              },
          .adjust = {}};
}

// The weight is used both ways.
OpCase transposed_linear_case(int64_t b, int64_t t, int64_t n, int64_t k) {
  return {.name = named("linear, transposed", b, t, n, k),
          .trace =
              [=](Dtype dtype) {
                Trace trace("transposed_linear");
                Var x = trace.input("x", {{b, t, n}, dtype});
                Var w = trace.weight("w", {{n, k}, dtype}, kTrained);
                Var y = transposed_linear(x, w);
                trace.output(y);
                trace.output(transposed_linear(linear(y, w), w));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor w = in.at("w"), y = plain::linear(in.at("x"), w.t());
                return std::vector{y, plain::linear(plain::linear(y, w), w.t())};
              },
          .adjust = {}};
}

// Added to what is there already.
OpCase sum_linear_case(int64_t b, int64_t t, int64_t k, int64_t n) {
  return {.name = named("linear, sum", b, t, k, n),
          .trace =
              [=](Dtype dtype) {
                Trace trace("sum_linear");
                Var x = trace.input("x", {{b, t, k}, dtype});
                Var sum = trace.input("sum", {{b, t, n}, dtype});
                trace.output(linear(x, trace.weight("w", {{n, k}, dtype}, kTrained), sum));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                return std::vector{plain::linear(in.at("x"), in.at("w")) + in.at("sum")};
              },
          .adjust = {}};
}

OpCase lora_case(int64_t b, int64_t t, int64_t k, int64_t n, int64_t rank) {
  const LoraProduct adapter{.rank = rank, .scale = 8.0 / static_cast<double>(rank)};
  return {
      .name = named("lora", b, t, k, n, rank),
      .trace =
          [=](Dtype dtype) {
            Trace trace("lora");
            Var x = trace.input("x", {{b, t, k}, dtype});
            Var y = linear(x, trace.weight("q_proj.weight", {{n, k}, dtype}, kTrained));
            Var of_a = lora_input(adapter, x, lora_a(adapter, x, "q_proj"));
            trace.output(linear(of_a, lora_b(rank, y, "q_proj"), y));
            return trace.finish();
          },
      .integers = {},
      .plain =
          [=](const Tensors& in) {
            at::Tensor low = plain::linear(in.at("x"), in.at("q_proj.lora_A.weight"));
            return std::vector{plain::linear(in.at("x"), in.at("q_proj.weight")) +
                               plain::linear(low, in.at("q_proj.lora_B.weight")) * (8.0 / rank)};
          },
      .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      linear_case(1, 1, 1, 1),     linear_case(2, 3, 5, 4),  shared_linear_case(2, 3, 4, 3),
      sum_linear_case(1, 2, 5, 3), lora_case(2, 3, 5, 4, 3), transposed_linear_case(2, 3, 5, 4),
  };
}

std::vector<OpCase> large() {
  return {
      linear_case(1, 1, 7, 5),
      linear_case(1, 3, 33, 17),
      linear_case(2, 150, 96, 130),
      linear_case(1, 700, 256, 300),
      shared_linear_case(3, 67, 72, 24),
      sum_linear_case(1, 3, 33, 17),
      sum_linear_case(2, 150, 96, 130),
      lora_case(2, 150, 96, 130, 3),
      transposed_linear_case(2, 67, 72, 24),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &linear_op, .tolerance = {4e-6, kRounding}, .emulated = emulated_products<run_linear>()},
    {.op = &linear_input_grad_op,
     .tolerance = {4e-6, kRounding},
     .emulated = emulated_products<run_linear_input_grad>()},
    {.op = &linear_weight_grad_op,
     .tolerance = {4e-6, 4e-6},
     .emulated = emulated_products<run_linear_weight_grad>()},
};

}  // namespace

extern constinit const OpRecord linear_record{kOps, small, large};

}  // namespace longshore::models
