#include "longshore/models/ops/expert_load.h"

#include <ATen/ops/diff.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten.h"

namespace longshore::models {
namespace {

struct Attrs {
  double weight;
};

double weight_of(const std::any& attrs) { return std::any_cast<const Attrs&>(attrs).weight; }

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "expert_load");
  expect(in[0].dtype == Dtype::int32 && in[0].shape.rank() == 1, "expert_load",
         "ends are not i32 [E]");
  return {Type{}};
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(in[0].shape.count()), .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& attrs) { return print_number("weight", weight_of(attrs)); }

void run_cpu(const KernelCall& call) {
  const int64_t experts = call.in[0].type.shape.count();
  const auto* const ends = call.in[0].as<int32_t>();
  int64_t most = 0;
  for (int64_t e = 0; e < experts; ++e)
    most = std::max<int64_t>(most, ends[e] - (e > 0 ? ends[e - 1] : 0));
  const double rows = std::max(ends[experts - 1], 1);
  *call.out[0].as<float>() = static_cast<float>(weight_of(call.attrs) * static_cast<double>(most) *
                                                static_cast<double>(experts) / rows);
}

void run_composed(const KernelCall& call) {
  at::Tensor ends = tensor(call, call.in[0]);
  at::Tensor rows = at::diff(ends, 1, -1, at::zeros({1}, ends.options())).to(at::kDouble);
  at::Tensor load = rows.max() / rows.sum().clamp_min(1);
  const double factor = weight_of(call.attrs) * static_cast<double>(ends.size(0));
  tensor(call, call.out[0]).copy_(load.mul_(factor));
}

int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return 32 * in[0].shape.count() + 4 * kReductionBytes;
}

}  // namespace

const Op expert_load_op{.name = "expert_load",
                        .infer = infer,
                        .cost = cost,
                        .print = print,
                        .cpu = {run_cpu},
                        .cuda = {run_composed, workspace_composed},
                        .reference = {run_composed}};

Var expert_load(Var ends, double weight) {
  return ends.trace->emit(expert_load_op, Attrs{weight}, {ends})[0];
}

}  // namespace longshore::models
