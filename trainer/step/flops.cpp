#include "trainer/step/flops.h"

#include "models/ops/attention/attention.h"
#include "models/ops/linear/linear.h"
#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"

namespace longshore::trainer {
namespace {

// How many times the work of its forward pass a node takes. A product has one more for each factor
// that needs a gradient; attention's two products have two each, of which MaxText counts all or
// none.
int passes(const models::Program& program, const models::Node& node) {
  auto needs = [&](int input) { return program[node.in[input]].needs_gradient ? 1 : 0; };
  if (node.op == &models::linear_op || node.op == &models::linear_cross_entropy_op)
    return 1 + needs(0) + needs(1);
  if (node.op == &models::attention_op) return program[node.out[0]].needs_gradient ? 3 : 1;
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
