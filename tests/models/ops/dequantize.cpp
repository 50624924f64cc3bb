#include "longshore/models/ops/dequantize/dequantize.h"

#include <vector>

#include "longshore/models/ops/dequantize/dequantize_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/ops/random_codes.h"

namespace longshore::models {
namespace {

using enum QuantizedFormat;

OpCase dequantize_case(const Stored& stored) {
  const QuantizedMatrix& m = stored.matrix;
  return {
      .name = named("dequantize", name(m.format), stored.matrices, m.rows, m.columns, m.first_row,
                    m.has_nested_scales ? "nested" : "", stored.is_transposed ? "transposed" : ""),
      .trace =
          [=](Dtype dtype) {
            const QuantizedWeight weight = weight_of(stored, dtype);
            Trace trace("dequantize");
            Var codes = trace.weight("codes", quantized_type(weight),
                                     {.trainable = Trainable::no, .quantized = weight});
            trace.output(dequantize(codes, weight));
            return trace.finish();
          },
      .integers = {},
      .plain = {},
      .adjust = [=](Tensors& in) { in["codes"] = random_codes(stored); }};
}

std::vector<OpCase> of_each_format(int64_t rows, int64_t columns, int64_t first_row,
                                   int64_t matrices = 1, bool is_transposed = false) {
  std::vector<OpCase> cases;
  for (QuantizedFormat format : {float32, bfloat16, fp8, int8, nf4, fp4, mxfp4})
    cases.push_back(dequantize_case(
        {{.format = format, .rows = rows, .columns = columns, .first_row = first_row},
         matrices,
         is_transposed}));
  for (RoundedTo rounded : {RoundedTo::bfloat16, RoundedTo::float16})
    for (QuantizedFormat format : {nf4, int8, fp8})
      cases.push_back(dequantize_case({{.format = format,
                                        .rows = rows,
                                        .columns = columns,
                                        .first_row = first_row,
                                        .rounded_to = rounded,
                                        .has_nested_scales = format == nf4},
                                       matrices,
                                       is_transposed}));
  return cases;
}

std::vector<OpCase> small() { return of_each_format(3, 5, 0); }

std::vector<OpCase> large() {
  std::vector<OpCase> cases;
  auto add = [&](std::vector<OpCase> some) {
    for (OpCase& one : some) cases.push_back(std::move(one));
  };
  add(of_each_format(300, 256, 128));
  add(of_each_format(131, 9, 7));
  add(of_each_format(48, 352, 1, 3));
  add(of_each_format(65, 50, 0, 2, true));
  add(of_each_format(70, 150, 3, 2, true));  // with whole tiles
  return cases;
}

std::vector<OpCase> real() {
  return {dequantize_case(
      {{.format = nf4, .rows = 14336, .columns = 4096, .has_nested_scales = true}})};
}

// The same to the bit everywhere.
constexpr OpTraits kOps[] = {{.op = &dequantize_op,
                              .tolerance = {0, kRounding},
                              .emulated = emulated_launch<dequantize_arguments>()}};

}  // namespace

extern constinit const OpRecord dequantize_record{kOps, small, large, real};

}  // namespace longshore::models
