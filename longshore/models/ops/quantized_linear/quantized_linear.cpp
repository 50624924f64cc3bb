#include "longshore/models/ops/quantized_linear/quantized_linear.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <array>

#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/dequantize/dequantize.h"
#include "longshore/models/ops/dequantize/dequantize_aten.h"
#include "longshore/models/ops/kernels/aten_product.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/quantized_linear/quantized_linear_cpu.h"
#include "longshore/models/ops/quantized_linear/quantized_linear_kernels.h"

namespace longshore::models {
namespace {

const QuantizedWeight& attrs_of(const std::any& attrs) {
  return std::any_cast<const QuantizedWeight&>(attrs);
}

Types infer(const std::any& any, std::span<const Type> in) {
  const QuantizedWeight& weight = attrs_of(any);
  expect_inputs(in, 2, 3, "quantized_linear");
  expect(serves_quantized_linear(in[0], weight), "quantized_linear",
         "x is not one row of the matrix's inputs, in the numbers' dtype");
  expect(in[1] == quantized_type(weight), "quantized_linear",
         "the bytes are not those of the numbers");
  const Type out{in[0].shape.with_back(weight.matrix.rows), in[0].dtype};
  expect(in.size() == 2 || in[2] == out, "quantized_linear", "the sum has another type");
  return {out};
}

Cost cost(const std::any& any, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 3.0 * static_cast<double>(attrs_of(any).matrix.count()),
          .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& any) { return name(attrs_of(any).matrix.format); }

// --- composition

void run_composed(const KernelCall& call) {
  const QuantizedWeight& weight = attrs_of(call.attrs);
  at::Tensor numbers = at::empty(weight.numbers.shape.sizes(), tensor(call, call.in[0]).options());
  const std::array in{call.in[1]};
  const std::array out{Ref{numbers.data_ptr(), weight.numbers}};
  KernelCall dequantizing = call;
  dequantizing.in = in;
  dequantizing.out = out;
  run_dequantize_composed(dequantizing);
  at::Tensor y = matrix(call, call.out[0]), sum;
  if (call.in.size() == 3) sum = call.in[2].data == call.out[0].data ? y : matrix(call, call.in[2]);
  product_into(call, y, sum, matrix(call, call.in[0]), numbers.t());
}

int64_t workspace_composed(const std::any& any, std::span<const Type> in, std::span<const Type>) {
  const QuantizedWeight& weight = attrs_of(any);
  const std::array codes{in[1]};
  const std::array numbers{weight.numbers};
  return allocated_bytes(weight.numbers.bytes()) +
         dequantize_composed_workspace(any, codes, numbers) + (int64_t{1} << 20);
}

}  // namespace

bool serves_quantized_linear(const Type& x, const QuantizedWeight& weight) {
  return x.shape.rows() == 1 && !weight.is_transposed && weight.numbers.shape.rank() == 2 &&
         x.shape.back() == weight.matrix.columns && x.dtype == weight.numbers.dtype;
}

QuantizedLinearArguments quantized_linear_arguments(const KernelCall& call) {
  const QuantizedMatrix& matrix = attrs_of(call.attrs).matrix;
  return {.dtype = call.in[0].type.dtype,
          .matrix = matrix,
          .view = view_of(matrix, call.in[1].as<std::byte>()),
          .book = code_book(matrix.format),
          .x = call.in[0].data,
          .sum = call.in.size() == 3 ? call.in[2].data : nullptr,
          .y = call.out[0].data};
}

const Op quantized_linear_op{
    .name = "quantized_linear",
    .infer = infer,
    .cost = cost,
    .print = print,
    .sum_input = 2,
    .cpu = {run_quantized_linear_cpu, quantized_linear_cpu_workspace},
    .cuda = {custom_kernel<launch_quantized_linear, quantized_linear_arguments>()},
    .cuda_composed = {run_composed, workspace_composed},
    .reference = {run_composed}};

Var quantized_linear(Var x, Var weight, const QuantizedWeight& quantized) {
  return x.trace->emit(quantized_linear_op, quantized, {x, weight})[0];
}

}  // namespace longshore::models
