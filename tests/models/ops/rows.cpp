#include "longshore/models/ops/rows/rows.h"

#include <ATen/ops/arange.h>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/gelu.h"
#include "longshore/models/ops/rows/rows_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

// Every third is -1, the others differ; backwards, so that order does not come by itself.
at::Tensor some_places(at::IntArrayRef shape, int64_t rows) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  at::Tensor places = (rows - 1 - at::arange(count, at::kInt)).to(at::kInt);
  for (int64_t n = 0; n < count; n += 3) places[n] = -1;
  return places.view(shape);
}

OpCase take_rows_case(int64_t b, int64_t t, int64_t c, int64_t rows) {
  return {.name = named("take_rows", b, t, c, rows),
          .trace =
              [=](Dtype dtype) {
                Trace trace("take_rows");
                Var x = trace.input("x", {{b, t, c}, dtype});
                trace.output(take_rows(x, trace.batch("places", ints({rows}))));
                trace.output(take_rows(x, trace.batch("more_places", ints({2, rows}))));
                return trace.finish();
              },
          .integers = {{"places", random_integers({rows}, b * t, 5)},
                       {"more_places", random_integers({2, rows}, b * t + 1, 6) - 1}},
          .plain = {},
          .adjust = {}};
}

// x is read again, and rows are placed twice.
OpCase replace_rows_case(int64_t b, int64_t t, int64_t c, int64_t m, int64_t n) {
  return {.name = named("replace_rows", b, t, c, m, n),
          .trace =
              [=](Dtype dtype) {
                Trace trace("replace_rows");
                Var x = trace.input("x", {{b, t, c}, dtype});
                Var rows = trace.input("rows", {{m, n, c}, dtype});
                Var places = trace.batch("places", ints({m, n}));
                Var y = replace_rows(x, rows, places);
                trace.output(y);
                trace.output(gelu(replace_rows(gelu(y), gelu(rows), places)));
                return trace.finish();
              },
          .integers = {{"places", some_places({m, n}, b * t)}},
          .plain =
              [=](const Tensors& in) {
                auto replaced = [&](const at::Tensor& x, const at::Tensor& rows) {
                  const at::Tensor places = in.at("places").view({-1}).to(at::kLong);
                  const at::Tensor chosen = places.ge(0).nonzero().view({-1});
                  return x.view({b * t, c})
                      .index_copy(0, places.index_select(0, chosen),
                                  rows.view({m * n, c}).index_select(0, chosen))
                      .view({b, t, c});
                };
                at::Tensor x = in.at("x"), rows = in.at("rows");
                at::Tensor y = replaced(x, rows);
                return std::vector{y, plain::gelu(replaced(plain::gelu(y), plain::gelu(rows)))};
              },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      take_rows_case(2, 3, 4, 5),
      replace_rows_case(1, 2, 1, 1, 2),
      replace_rows_case(2, 3, 5, 2, 2),
  };
}

std::vector<OpCase> large() {
  return {
      take_rows_case(3, 100, 33, 17),
      take_rows_case(1, 9, 320, 1),
      replace_rows_case(2, 100, 33, 3, 16),
      replace_rows_case(1, 60, 320, 4, 9),
  };
}

std::vector<OpCase> real() { return {replace_rows_case(1, 600, 2304, 2, 256)}; }

constexpr OpTraits kOps[] = {
    {.op = &take_rows_op, .tolerance = {0, 0}, .emulated = emulated_launch<take_rows_arguments>()},
    {.op = &replace_rows_op,
     .tolerance = {0, 0},
     .emulated = emulated_launch<replace_rows_arguments>()},
    {.op = &clear_rows_op,
     .tolerance = {0, 0},
     .emulated = emulated_launch<clear_rows_arguments>()},
};

}  // namespace

extern constinit const OpRecord rows_record{kOps, small, large, real};

}  // namespace longshore::models
