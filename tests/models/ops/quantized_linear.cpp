#include "longshore/models/ops/quantized_linear/quantized_linear.h"

#include <vector>

#include "longshore/models/ops/quantized_linear/quantized_linear_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/ops/random_codes.h"

namespace longshore::models {
namespace {

using enum QuantizedFormat;

OpCase quantized_linear_case(const QuantizedMatrix& m, bool has_sum) {
  const Stored stored{m};
  return {
      .name = named("quantized_linear", name(m.format), m.rows, m.columns, m.first_row,
                    m.has_nested_scales ? "nested" : "",
                    m.rounded_to == RoundedTo::float16 ? "float16" : "", has_sum ? "sum" : ""),
      .trace =
          [=](Dtype dtype) {
            const QuantizedWeight weight = weight_of(stored, dtype);
            Trace trace("quantized_linear");
            Var codes = trace.weight("codes", quantized_type(weight),
                                     {.trainable = Trainable::no, .quantized = weight});
            Var x = trace.weight("x", {{1, 1, m.columns}, dtype}, {.trainable = Trainable::no});
            if (!has_sum) {
              trace.output(quantized_linear(x, codes, weight));
              return trace.finish();
            }
            Var sum = trace.weight("sum", {{1, 1, m.rows}, dtype}, {.trainable = Trainable::no});
            trace.output(trace.emit(quantized_linear_op, weight, {x, codes, sum})[0]);
            return trace.finish();
          },
      .integers = {},
      .plain = {},
      .adjust = [=](Tensors& in) { in["codes"] = random_codes(stored); }};
}

std::vector<OpCase> of_each_format(int64_t rows, int64_t columns, int64_t first_row) {
  std::vector<OpCase> cases;
  for (QuantizedFormat format : {float32, bfloat16, fp8, int8, nf4, fp4, mxfp4})
    cases.push_back(quantized_linear_case(
        {.format = format, .rows = rows, .columns = columns, .first_row = first_row},
        format == int8 || format == nf4));
  for (QuantizedFormat format : {int8, nf4})
    cases.push_back(quantized_linear_case({.format = format,
                                           .rows = rows,
                                           .columns = columns,
                                           .first_row = first_row,
                                           .rounded_to = RoundedTo::float16},
                                          false));
  cases.push_back(quantized_linear_case({.format = nf4,
                                         .rows = rows,
                                         .columns = columns,
                                         .first_row = first_row,
                                         .rounded_to = RoundedTo::bfloat16,
                                         .has_nested_scales = true},
                                        false));
  return cases;
}

std::vector<OpCase> small() { return of_each_format(3, 5, 0); }

std::vector<OpCase> large() {
  std::vector<OpCase> cases = of_each_format(70, 512, 128);
  for (OpCase& one : of_each_format(131, 9, 7)) cases.push_back(std::move(one));
  for (OpCase& one : of_each_format(33, 352, 1)) cases.push_back(std::move(one));
  return cases;
}

std::vector<OpCase> real() {
  return {quantized_linear_case(
      {.format = nf4, .rows = 4096, .columns = 14336, .has_nested_scales = true}, true)};
}

// In bfloat16 the numbers are rounded, and then the sum.
constexpr OpTraits kOps[] = {{.op = &quantized_linear_op,
                              .tolerance = {4e-6, 2 * kRounding},
                              .emulated = emulated_launch<quantized_linear_arguments>()}};

}  // namespace

extern constinit const OpRecord quantized_linear_record{kOps, small, large, real};

}  // namespace longshore::models
