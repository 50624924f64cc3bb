// An op of one's own, outside of Longshore's sources: y = max(x, 0)^2 (So et al. 2021, "Primer").
// It is a record: a type rule, a gradient rule, a cost and kernels. Policies, plans and offloading
// then treat it as any other op.
#include <ATen/ops/clamp_min.h>
#include <longshore/models/ir/backward.h>
#include <longshore/models/ir/infer.h>
#include <longshore/models/ir/stages.h>
#include <longshore/models/ir/trace.h>
#include <longshore/models/ops/kernels/aten.h>
#include <longshore/models/ops/linear/linear.h>
#include <longshore/models/ops/sum.h>
#include <longshore/offload/backends/cpu_backend.h>
#include <longshore/offload/execution/value_and_grad.h>

#include <cstdio>

using namespace longshore;
using namespace longshore::models;

namespace {

// --- the gradient: (dy, x) -> dx = dy * 2 max(x, 0)

Types infer_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "squared_relu_grad");
  expect(in[0] == in[1], "squared_relu_grad", "dy and x differ in type");
  return {in[1]};
}

// What the op takes: for estimates of a step's time, and for what is worth recomputing.
Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 2.0 * out[0].shape.count(), .bytes = operand_bytes(in, out)};
}

// Kernels write into memory that the plan gave them. They allocate nothing.
void run_grad(const KernelCall& call) {
  at::Tensor dy = tensor(call, call.in[0]), x = tensor(call, call.in[1]);
  at::Tensor dx = tensor(call, call.out[0]);
  at::clamp_min_out(dx, x, 0).mul_(dy).mul_(2);
}

const Op squared_relu_grad_op{.name = "squared_relu_grad",
                              .infer = infer_grad,
                              .cost = cost,
                              .recompute_cost = RecomputeCost::low,
                              .cpu = {run_grad},
                              .cuda = {run_grad},
                              .reference = {run_grad}};

// --- the op: (x) -> y

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "squared_relu");
  return {in[0]};
}

void vjp(Backward& backward, const Node& node) {
  const ValueId x = node.in[0], dy = backward.gradient(node.out[0]);
  backward.contribute(x, backward.emit(squared_relu_grad_op, {}, {dy, x}, x)[0]);
}

// Where nothing else reads x any more, y takes its memory.
std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

void run(const KernelCall& call) {
  at::Tensor x = tensor(call, call.in[0]), y = tensor(call, call.out[0]);
  at::clamp_min_out(y, x, 0).square_();
}

const Op squared_relu_op{.name = "squared_relu",
                         .infer = infer,
                         .vjp = vjp,
                         .cost = cost,
                         .reuse = reuse,
                         .recompute_cost = RecomputeCost::low,
                         .cpu = {run},
                         .cuda = {run},
                         .reference = {run}};

Var squared_relu(Var x) { return x.trace->emit(squared_relu_op, {}, {x})[0]; }

// --- a model that uses it: sum(squared_relu(x·Wᵀ))

Model network() {
  Trace input("input");
  input.output(input.batch("x", {{2, 3}}));
  Trace layer("layer");
  Var w = layer.weight("w", {{4, 3}}, {.init = {Init::Kind::normal, 1}});
  layer.output(sum(squared_relu(linear(layer.input("x", {{2, 3}}), w))), OutputRole::loss);
  return connected("network", {run_once(input.finish()), run_once(layer.finish(), {{0, 0}})});
}

}  // namespace

int main() {
  const Model model = network();
  std::printf("%s\n", text(model.stages[1].programs[0]).c_str());

  offload::Runtime runtime{offload::make_cpu_backend()};
  offload::ValueAndGrad f(runtime, model);
  std::vector<float> w{0.5f, -1, 2, 1, 0, -0.5f, -2, 1, 1, 0.25f, 0.75f, -1};
  f.set_batch("x", std::vector<float>{1, 2, 3, -1, 0.5f, 2});
  f.set_parameter("w", w);
  std::printf("value %.3f\n", f());
  const float gradient = f.gradient("w")[0];

  // The gradient is the slope.
  const float at = w[0], step = 1e-2f;
  auto value_at = [&](float weight) {
    w[0] = weight;
    f.set_parameter("w", w);
    return f();
  };
  const double slope = (value_at(at + step) - value_at(at - step)) / (2 * step);
  std::printf("gradient of w[0] %.3f, difference quotient %.3f\n", gradient, slope);
}
