#include "longshore/models/ops/kernels/norm_grad.h"

#include <omp.h>

#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/norm_partials.h"

namespace longshore::models {

const NormGradAttrs& norm_grad_attrs(const std::any& attrs) {
  return std::any_cast<const NormGradAttrs&>(attrs);
}

void emit_norm_grad(Backward& backward, const Op& op, NormGradAttrs attrs,
                    std::vector<ValueId> in) {
  const ValueId x = in[1], weight = in[2];
  attrs.weight_gradient = backward.wants_gradient(weight);
  attrs.weight_gradient_dtype = backward.weight_gradient_dtype();
  if (backward.wants_gradient(x))
    if (ValueId sum = backward.sum_so_far(x)) {
      attrs.input_sum = true;
      in.push_back(sum);
    }
  if (attrs.weight_gradient)
    if (ValueId sum = backward.sum_so_far(weight)) {
      attrs.weight_sum = true;
      in.push_back(sum);
    }
  auto out = backward.emit(op, attrs, std::move(in), x);
  if (backward.wants_gradient(x)) backward.replace_sum(x, out[0]);
  if (attrs.weight_gradient) backward.replace_sum(weight, out[1]);
}

Types infer_norm_grad(const std::any& any, std::span<const Type> in, const char* op) {
  const NormGradAttrs& attrs = norm_grad_attrs(any);
  const auto count = static_cast<size_t>(attrs.operands + attrs.input_sum + attrs.weight_sum);
  expect_inputs(in, count, count, op);
  expect(in[0] == in[1], op, "dy and x differ in type");
  Types out{in[0]};
  if (attrs.weight_gradient) out.push_back({in[2].shape, attrs.weight_gradient_dtype});
  return out;
}

std::vector<Reuse> reuse_norm_grad(const std::any& any, int) {
  const NormGradAttrs& attrs = norm_grad_attrs(any);
  std::vector<Reuse> choices;
  if (attrs.input_sum) choices.push_back({.out = 0, .in = attrs.input_sum_index()});
  choices.push_back({.out = 0, .in = 0});
  if (attrs.weight_sum) choices.push_back({.out = 1, .in = attrs.weight_sum_index()});
  return choices;
}

std::string print_norm_grad(const std::any& any) {
  const NormGradAttrs& attrs = norm_grad_attrs(any);
  std::string text = attrs.weight_gradient ? "input and weight" : "input";
  if (attrs.input_sum) text += ", adds to input's";
  if (attrs.weight_sum) text += ", adds to weight's";
  if (attrs.weight_offset != 0) text += ", " + print_number("weight_offset", attrs.weight_offset);
  return text;
}

int64_t norm_grad_partials_bytes(const std::any& any, std::span<const Type> in,
                                 std::span<const Type>) {
  if (!norm_grad_attrs(any).weight_gradient) return 0;
  return omp_get_max_threads() * in[2].shape.count() * size_bytes(Dtype::float32);
}

void add_norm_grad_partials(const KernelCall& call) {
  const NormGradAttrs& attrs = norm_grad_attrs(call.attrs);
  if (!attrs.weight_gradient) return;
  const int64_t width = call.in[2].type.shape.count();
  const auto* partial = reinterpret_cast<const float*>(call.workspace.data());
  const int64_t partials = static_cast<int64_t>(call.workspace.size()) / (width * sizeof(float));
  float* dweight = call.out[1].as<float>();
  const float* sum = attrs.weight_sum ? call.in[attrs.weight_sum_index()].as<float>() : nullptr;
  for (int64_t i = 0; i < width; ++i) {
    float total = sum ? sum[i] : 0.f;
    for (int64_t p = 0; p < partials; ++p) total += partial[p * width + i];
    dweight[i] = total;
  }
}

int64_t custom_norm_grad_bytes(const std::any& any, std::span<const Type> in,
                               std::span<const Type>) {
  if (!norm_grad_attrs(any).weight_gradient) return 0;
  return norm_partials(in[3].shape[0]) * in[2].shape.count() * size_bytes(Dtype::float32);
}

}  // namespace longshore::models
