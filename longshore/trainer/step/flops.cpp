#include "longshore/trainer/step/flops.h"

namespace longshore::trainer {
namespace {

// How many times the work of its forward pass a node takes. A product has one more for each factor
// that needs a gradient; attention's two products have two each, of which MaxText counts all or
// none. What is limited by memory does not count.
int passes(const models::Program& program, const models::Node& node) {
  auto needs = [&](int input) { return program[node.in[input]].needs_gradient ? 1 : 0; };
  switch (node.op->op_class) {
    case models::OpClass::matmul:
    case models::OpClass::grouped:
      return 1 + needs(0) + needs(1);
    case models::OpClass::attention:
      return program[node.out[0]].needs_gradient ? 3 : 1;
    case models::OpClass::memory:
      break;
  }
  return 0;
}

double training_flops(const models::Program& program) {
  double flops = 0;
  for (const models::Node& node : program.nodes)
    if (int count = passes(program, node); count > 0) flops += count * program.cost(node).flops;
  return flops;
}

}  // namespace

double training_flops(const models::Model& model, int64_t micro_batches) {
  double flops = 0;
  for (const models::Stage& stage : model.stages)
    for (int kind : stage.layers) flops += training_flops(stage.programs[kind]);
  return flops * static_cast<double>(micro_batches);
}

}  // namespace longshore::trainer
