#include "tests/models/run_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <map>

#include "longshore/models/ops/kernels/aten.h"

namespace longshore::models {
namespace {

// What ran, in order.
struct LayerRun {
  int stage, layer;
  const Program* program;
  Tensors values;
};

using Outputs = std::vector<at::Tensor>;  // undefined where there is nothing yet

void add_to(at::Tensor& sum, const at::Tensor& term) { sum = sum.defined() ? sum + term : term; }

}  // namespace

ModelRun run_model(const Model& model, const Tensors& weights, const Tensors& batch,
                   double loss_gradient, Target target, Checks checks) {
  std::vector<LayerRun> runs;
  std::vector<Outputs> outputs;                 // of stages
  std::vector<std::vector<Outputs>> of_layers;  // of theirs
  double auxiliary_loss = 0, expert_load = 0;
  for (size_t s = 0; s < model.stages.size(); ++s) {
    const Stage& stage = model.stages[s];
    Outputs last;
    std::vector<Outputs>& of_stage = of_layers.emplace_back();
    for (int layer = 0; layer < std::ssize(stage.layers); ++layer) {
      const Program& program = stage.program(layer);
      Tensors inputs = batch;
      for (ValueId id : program.inputs_from(Source::weight))
        inputs[program[id].name] = weights.at(weight_name(stage, layer, program[id]));
      std::vector<ValueId> fed = program.inputs_from(Source::input);
      for (size_t i = 0; i < fed.size(); ++i) {
        StageInput from = stage.inputs[i];
        inputs[program[fed[i]].name] =
            i == 0 && layer > 0 ? last[0] : outputs[from.stage][from.output_for(layer)];
      }
      std::vector<ValueId> earlier = program.inputs_from(Source::earlier_layer);
      const std::vector<LayerOutput> given = from_earlier_layers(stage, layer);
      for (size_t i = 0; i < earlier.size(); ++i)
        inputs[program[earlier[i]].name] = of_stage[given[i].layer][given[i].output];
      Tensors values = run_program(program, inputs, target, checks);
      last.clear();
      for (const Output& output : program.outputs) {
        last.push_back(values.at(program[output.value].name));
        if (output.role == OutputRole::auxiliary_loss) auxiliary_loss += last.back().item<double>();
        if (output.role == OutputRole::expert_load) expert_load += last.back().item<double>();
      }
      of_stage.push_back(last);
      runs.push_back({static_cast<int>(s), layer, &program, std::move(values)});
    }
    outputs.push_back(last);
  }
  ModelRun result{outputs.back(), {}, auxiliary_loss, expert_load};
  const Stage& head = model.stages.back();
  if (head.programs[head.layers.back()].outputs[0].role != OutputRole::loss) return result;

  const at::Tensor& loss = result.outputs[0];
  Dtype weight_gradient_dtype = type_of(loss).dtype;
  std::vector<Outputs> output_gradients;
  for (const Outputs& made : outputs) output_gradients.emplace_back(made.size());
  output_gradients.back()[0] = at::full({}, loss_gradient, loss.options());
  at::Tensor carry_gradient;
  std::map<std::pair<int, LayerOutput>, at::Tensor> to_earlier;  // by stage
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    const Stage& stage = model.stages[run->stage];
    const Program& program = *run->program;
    bool last_layer = run->layer + 1 == std::ssize(stage.layers);
    std::vector<ValueId> accumulate;
    Tensors cotangents, sums;
    for (ValueId id : program.inputs_from(Source::weight)) {
      auto known = result.gradients.find(weight_name(stage, run->layer, program[id]));
      if (known == result.gradients.end()) continue;
      accumulate.push_back(id);
      sums[program[id].name] = known->second;
    }
    for (size_t i = 0; i < program.outputs.size(); ++i) {
      const std::string& name = program[program.outputs[i].value].name;
      if (program.outputs[i].role == OutputRole::expert_load) continue;
      if (program.outputs[i].role == OutputRole::auxiliary_loss) {
        cotangents[name] = at::ones_like(run->values.at(name));
        continue;
      }
      at::Tensor gradient = program.outputs[i].role == OutputRole::later_layers
                                ? to_earlier[{run->stage, {run->layer, static_cast<int>(i)}}]
                            : last_layer ? output_gradients[run->stage][i]
                            : i == 0     ? carry_gradient
                                         : at::Tensor();
      cotangents[name] = gradient.defined() ? gradient : at::zeros_like(run->values.at(name));
    }
    Tensors gradients = run_backward(
        program,
        backward(program,
                 {.accumulate = accumulate, .weight_gradient_dtype = weight_gradient_dtype}),
        run->values, cotangents, sums, target, checks);
    for (ValueId id : program.inputs_from(Source::weight))
      if (auto found = gradients.find(program[id].name); found != gradients.end())
        result.gradients[weight_name(stage, run->layer, program[id])] = found->second;
    std::vector<ValueId> earlier = program.inputs_from(Source::earlier_layer);
    const std::vector<LayerOutput> given = from_earlier_layers(stage, run->layer);
    for (size_t i = 0; i < earlier.size(); ++i)
      if (auto found = gradients.find(program[earlier[i]].name); found != gradients.end())
        add_to(to_earlier[{run->stage, given[i]}], found->second);
    std::vector<ValueId> fed = program.inputs_from(Source::input);
    for (size_t i = 0; i < fed.size(); ++i) {
      auto found = gradients.find(program[fed[i]].name);
      if (found == gradients.end()) continue;
      StageInput from = stage.inputs[i];
      if (i == 0 && run->layer > 0)
        carry_gradient = found->second;
      else
        add_to(output_gradients[from.stage][from.output_for(run->layer)], found->second);
    }
  }
  return result;
}

Tensors random_weights(const Model& model, uint64_t seed) {
  Tensors weights;
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (const Stage& stage : model.stages)
    for (int layer = 0; layer < std::ssize(stage.layers); ++layer) {
      const Program& program = stage.program(layer);
      for (ValueId id : program.inputs_from(Source::weight)) {
        const Shape& shape = program[id].type.shape;
        at::Tensor weight = at::randn(shape.sizes(), generator, at::kDouble);
        if (shape.rank() == 1)
          weight.mul_(0.25).add_(1);
        else
          weight.div_(std::sqrt(static_cast<double>(shape.back())));
        weights.try_emplace(weight_name(stage, layer, program[id]),
                            weight.to(scalar_type(program[id].type.dtype)));
      }
    }
  return weights;
}

}  // namespace longshore::models
