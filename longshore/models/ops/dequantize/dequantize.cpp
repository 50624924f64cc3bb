#include "longshore/models/ops/dequantize/dequantize.h"

#include "longshore/base/quantization/dequantize.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/dequantize/dequantize_aten.h"
#include "longshore/models/ops/dequantize/dequantize_cpu.h"
#include "longshore/models/ops/dequantize/dequantize_kernels.h"
#include "longshore/models/ops/kernels/custom_kernel.h"

namespace longshore::models {
namespace {

const QuantizedWeight& attrs_of(const std::any& attrs) {
  return std::any_cast<const QuantizedWeight&>(attrs);
}

Types infer(const std::any& any, std::span<const Type> in) {
  const QuantizedWeight& weight = attrs_of(any);
  expect_inputs(in, 1, 1, "dequantize");
  expect(in[0] == quantized_type(weight), "dequantize", "the bytes are not those of the numbers");
  return {weight.numbers};
}

// A product of a code and a scale for each number.
Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(out[0].shape.count()), .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& any) { return name(attrs_of(any).matrix.format); }

}  // namespace

Type quantized_type(const QuantizedWeight& weight) {
  const int64_t bytes = parts_of(weight.matrix).bytes;
  if (weight.numbers.shape.rank() == 2) return {{bytes}, Dtype::uint8};
  return {{weight.numbers.shape[0], bytes}, Dtype::uint8};
}

DequantizeArguments dequantize_arguments(const KernelCall& call) {
  const QuantizedWeight& weight = attrs_of(call.attrs);
  return {.dtype = weight.numbers.dtype,
          .matrix = weight.matrix,
          .matrices = weight.numbers.shape.count() / weight.matrix.count(),
          .bytes = call.in[0].type.shape.back(),
          .first = view_of(weight.matrix, call.in[0].as<std::byte>()),
          .book = code_book(weight.matrix.format),
          .is_transposed = weight.is_transposed,
          .out = call.out[0].data};
}

const Op dequantize_op{.name = "dequantize",
                       .infer = infer,
                       .cost = cost,
                       .print = print,
                       .recompute_cost = RecomputeCost::low,
                       .cpu = {run_dequantize_cpu},
                       .cuda = {custom_kernel<launch_dequantize, dequantize_arguments>()},
                       .cuda_composed = {run_dequantize_composed, dequantize_composed_workspace},
                       .reference = {run_dequantize_composed}};

Var dequantize(Var weight, const QuantizedWeight& quantized) {
  return weight.trace->emit(dequantize_op, quantized, {weight})[0];
}

}  // namespace longshore::models
