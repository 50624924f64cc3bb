#include "longshore/models/ir/backward.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/models/ir/add.h"

namespace longshore::models {

Backward::Backward(const Program& forward, const BackwardOptions& options)
    : forward_(forward), options_(options), gradients_(forward.values.size()) {
  if (size_bytes(options.weight_gradient_dtype) < size_bytes(Dtype::float32))
    throw InternalError(forward.name + ": weight gradients are summed in f32 or f64, not in " +
                        models::name(options.weight_gradient_dtype));
  Program& program = result_.program;
  program.name = forward.name + ".backward";
  program.values = forward.values;
  // Without the forward nodes: forward values are inputs here.
  for (Value& value : program.values) value.producer = -1;
  for (size_t i = 0; i < forward.values.size(); ++i)
    program.inputs.push_back({static_cast<int32_t>(i)});

  for (const Output& output : forward.outputs) {
    const Value& value = forward[output.value];
    const bool has_gradient =
        output.role != OutputRole::expert_load && output.role != OutputRole::log_probs;
    if (!value.needs_gradient || !has_gradient) {
      result_.cotangents.push_back({});
      continue;
    }
    ValueId cotangent = program.add_input({.name = program.unique_name(value.name + ".grad"),
                                           .type = value.type,
                                           .source = Source::cotangent});
    result_.cotangents.push_back(cotangent);
    contribute(output.value, cotangent);
  }
}

std::vector<ValueId> Backward::emit(const Op& op, std::any attrs, std::vector<ValueId> in,
                                    ValueId of) {
  return result_.program.add_node(op, std::move(attrs), std::move(in), forward_[of].name + ".grad");
}

ValueId Backward::sum_so_far(ValueId value) {
  ValueId& sum = gradients_[value.index];
  if (!sum && std::find(options_.accumulate.begin(), options_.accumulate.end(), value) !=
                  options_.accumulate.end()) {
    sum = result_.program.add_input(
        {.name = forward_[value].name + ".grad.sum",
         .type = {forward_[value].type.shape, options_.weight_gradient_dtype},
         .source = Source::accumulator});
    result_.accumulators.push_back({value, sum});
  }
  return sum;
}

void Backward::accumulate(const Op& op, std::any attrs, std::vector<ValueId> in, ValueId value) {
  if (const ValueId sum = sum_so_far(value)) in.push_back(sum);
  replace_sum(value, emit(op, std::move(attrs), std::move(in), value)[0]);
}

void Backward::contribute(ValueId value, ValueId gradient) {
  ValueId sum = sum_so_far(value);
  replace_sum(value, sum ? emit(add_op, {}, {sum, gradient}, value)[0] : gradient);
}

BackwardProgram Backward::finish() {
  Program& program = result_.program;
  for (ValueId id : forward_.inputs) {
    const Value& value = forward_[id];
    if (!value.needs_gradient || !gradients_[id.index]) continue;
    result_.gradients.push_back({id, gradients_[id.index]});
    program.outputs.push_back({gradients_[id.index], OutputRole::value});
  }

  // Rules may emit gradients that nothing asks for; drop them, so that they keep nothing alive.
  std::vector<ValueId> needed;
  for (const Output& output : program.outputs) needed.push_back(output.value);
  program.drop_nodes_but_for(needed);
  return std::move(result_);
}

BackwardProgram backward(const Program& forward, const BackwardOptions& options) {
  Backward backward(forward, options);
  for (auto node = forward.nodes.rbegin(); node != forward.nodes.rend(); ++node) {
    if (!forward[node->out[0]].needs_gradient || !backward.gradient(node->out[0])) continue;
    if (!node->op->vjp)
      throw InternalError(forward.name + ": " + node->op->name + " has no vjp rule, but " +
                          forward[node->out[0]].name + " needs a gradient");
    node->op->vjp(backward, *node);
  }
  return backward.finish();
}

void set_input_gradients(Program& program, std::span<const ValueId> inputs_that_need_one) {
  for (Source source : {Source::input, Source::earlier_layer})
    for (ValueId id : program.inputs_from(source))
      program[id].needs_gradient =
          std::ranges::find(inputs_that_need_one, id) != inputs_that_need_one.end();
  for (const Node& node : program.nodes) {
    bool needs = std::any_of(node.in.begin(), node.in.end(),
                             [&](ValueId id) { return program[id].needs_gradient; });
    for (ValueId id : node.out) program[id].needs_gradient = needs;
  }
}

}  // namespace longshore::models
