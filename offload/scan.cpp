#include "offload/scan.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace longshore::offload {

using models::Output;
using models::OutputRole;
using models::Program;
using models::Source;
using models::Type;
using models::Value;
using models::ValueId;

std::string host_name(const std::string& name) { return name + ".host"; }

Scan::Scan(const models::Model& model, const ParameterLayout& layout, PlanBuilder& builder)
    : model_(model), layout_(layout), builder_(builder) {}

// --- operands

Operand Scan::slab(int slab, Copy copy) {
  const Slab& s = layout_.slabs[slab];
  return range(slab, copy, 0, {{s.count}, dtype(s, copy)});
}

Operand Scan::range(int slab, Copy copy, int64_t offset, const Type& type) {
  const Slab& s = layout_.slabs[slab];
  int64_t offset_bytes = offset * models::size_bytes(dtype(s, copy));
  std::string name = argument_name(s, copy);
  if (copy == Copy::gradient) {
    auto [entry, is_new] = gradient_buffers_.try_emplace(slab, -1);
    if (is_new)
      entry->second =
          options_.gradients == GradientHome::plan
              ? builder_.temporary(name, bytes(s, copy), MemoryKind::device, Category::gradients)
              : builder_.argument(name, bytes(s, copy), MemoryKind::device, Category::gradients);
    return {entry->second, offset_bytes, type};
  }
  bool moment = copy == Copy::first_moment || copy == Copy::second_moment;
  return {builder_.argument(name, bytes(s, copy), MemoryKind::device,
                            moment ? Category::optimizer : Category::parameters),
          offset_bytes, type};
}

Operand Scan::parameter(const std::string& name, Copy copy) {
  ParameterLayout::Location location = layout_.by_name.at(name);
  const Parameter& parameter = layout_.parameter(location);
  Type type = parameter.type;
  type.dtype = dtype(layout_.slab(location), copy);
  return range(location.slab, copy, parameter.offset, type);
}

Operand Scan::batch(const Value& value) {
  Operand& operand = batch_[value.name];
  if (operand && operand.type != value.type)
    throw InternalError(model_.name + ": batch input " + value.name + " has two types");
  if (!operand) {
    Operand host{builder_.argument(host_name(value.name), value.type.bytes(),
                                   MemoryKind::pinned_host, Category::batch),
                 0, value.type};
    operand = builder_.temporary(value.name, value.type, MemoryKind::device, Category::batch);
    builder_.move(Lane::host_to_device, host, operand, {.stage = "batch"});
  }
  return operand;
}

Operand Scan::scalar(const std::string& name) {
  return batch({.name = name, .type = {}, .source = Source::scalar});
}

// --- losses, which layers and micro-batches add up

Operand Scan::loss_argument(OutputRole role) {
  const char* name = role == OutputRole::loss ? kLoss : kAuxiliaryLoss;
  return {builder_.argument(name, Type{}.bytes(), MemoryKind::device, Category::batch), 0, {}};
}

void Scan::bind_loss(const Program& program, ValueId value, OutputRole role,
                     PlanBuilder::Bindings& bindings) {
  if (!loss_begun_[role] && options_.micro_batch == MicroBatch::first) {
    bindings.resize(program.values.size());
    bindings[value.index] = loss_argument(role);
  }
}

void Scan::finish_loss(const Program& program, ValueId value, OutputRole role,
                       const PlanBuilder::Bindings& bindings, const Place& place) {
  Operand sum = loss_argument(role), part = bindings[value.index];
  loss_begun_[role] = true;
  if (part.buffer == sum.buffer) return;
  Program addition = models::addition(program[value].type);
  PlanBuilder::Bindings operands{sum, part, sum};
  builder_.run(addition, operands, place);
}

// --- forward

void Scan::bind_inputs(const Program& program, int stage, int layer,
                       PlanBuilder::Bindings& bindings) {
  const models::Stage& s = model_.stages[stage];
  bindings.resize(program.values.size());
  std::vector<ValueId> inputs = program.inputs_from(Source::input);
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool carry = i == 0 && layer > 0;
    models::StageOutput from = s.inputs[i];
    bindings[inputs[i].index] =
        carry ? outputs_.at({stage, 0}) : outputs_.at({from.stage, from.output});
  }
  for (ValueId id : program.inputs) {
    const Value& value = program[id];
    if (value.source == Source::weight)
      bindings[id.index] = parameter(weight_name(s, layer, value), Copy::compute);
    else if (value.source == Source::batch || value.source == Source::scalar)
      bindings[id.index] = batch(value);
  }
}

void Scan::run_forward(const Program& program, int stage, int layer,
                       PlanBuilder::Bindings& bindings) {
  Place place{model_.stages[stage].name, layer, Phase::forward};
  bind_inputs(program, stage, layer, bindings);
  auto runs_here = [&](const Output& output) {
    return program[output.value].source != Source::node ||
           std::any_of(program.nodes.begin(), program.nodes.end(), [&](const models::Node& node) {
             return std::find(node.out.begin(), node.out.end(), output.value) != node.out.end();
           });
  };
  for (const Output& output : program.outputs)
    if (output.role != OutputRole::value && runs_here(output))
      bind_loss(program, output.value, output.role, bindings);
  builder_.run(program, bindings, place);
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    const Output& output = program.outputs[o];
    if (output.role == OutputRole::value)
      outputs_[{stage, static_cast<int>(o)}] = bindings[output.value.index];
    else if (runs_here(output))
      finish_loss(program, output.value, output.role, bindings, place);
  }
}

void Scan::forward() {
  options_ = {.policy = keep_all()};
  for (int stage = 0; stage < static_cast<int>(model_.stages.size()); ++stage) {
    const models::Stage& s = model_.stages[stage];
    for (int layer = 0; layer < static_cast<int>(s.layers.size()); ++layer) {
      PlanBuilder::Bindings bindings;
      run_forward(s.programs[s.layers[layer]], stage, layer, bindings);
    }
  }
  int last = static_cast<int>(model_.stages.size()) - 1;
  for (const auto& [key, operand] : outputs_) {
    if (key.first != last) continue;
    std::string name = host_name("output." + std::to_string(key.second));
    Operand host{
        builder_.argument(name, operand.type.bytes(), MemoryKind::pinned_host, Category::batch), 0,
        operand.type};
    builder_.move(Lane::device_to_host, operand, host, {.stage = model_.stages[last].name});
  }
}

// --- backward

void Scan::add_gradient(std::map<Key, Operand>& sums, Key key, const Operand& gradient,
                        const Place& place) {
  Operand& sum = sums[key];
  if (!sum) {
    sum = gradient;
    return;
  }
  Program addition = models::addition(gradient.type);
  PlanBuilder::Bindings operands{sum, gradient};
  builder_.run(addition, operands, place);
  sum = operands.back();
}

void Scan::run_backward(int stage, int layer) {
  const models::Stage& s = model_.stages[stage];
  const Partition& partition = *layers_[stage][layer].partition;
  const Program &forward = partition.forward, &backward = partition.backward;
  Place place{s.name, layer, Phase::backward};
  PlanBuilder::Bindings bindings = std::move(layers_[stage][layer].bindings);
  bindings.resize(backward.values.size());

  for (size_t o = 0; o < forward.outputs.size(); ++o) {
    if (!partition.cotangents[o]) continue;
    Operand& cotangent = bindings[partition.cotangents[o].index];
    switch (forward.outputs[o].role) {
      case OutputRole::loss:
        cotangent = scalar(kLossGradient);
        break;
      case OutputRole::auxiliary_loss:
        cotangent = scalar(kAuxiliaryLossGradient);
        break;
      case OutputRole::value:
        cotangent = output_gradients_[{stage, static_cast<int>(o)}];
        if (!cotangent)
          throw InternalError(model_.name + ": nothing that trains reads output " +
                              std::to_string(o) + " of stage " + s.name);
        break;
    }
  }
  for (const models::GradientOf& a : partition.accumulators)
    bindings[a.gradient.index] = parameter(weight_name(s, layer, forward[a.of]), Copy::gradient);
  for (const models::GradientOf& g : partition.gradients)
    if (forward[g.of].source == Source::weight)
      bindings[g.gradient.index] = parameter(weight_name(s, layer, forward[g.of]), Copy::gradient);
  auto role_of = [&](ValueId output) {
    return std::find_if(forward.outputs.begin(), forward.outputs.end(),
                        [&](const Output& o) { return o.value == output; })
        ->role;
  };
  for (const models::GradientOf& made : partition.outputs_made_late)
    bind_loss(backward, made.gradient, role_of(made.of), bindings);

  builder_.run(backward, bindings, place);

  for (const models::GradientOf& made : partition.outputs_made_late)
    finish_loss(backward, made.gradient, role_of(made.of), bindings, place);
  std::vector<ValueId> inputs = forward.inputs_from(Source::input);
  output_gradients_.erase({stage, 0});  // the carry's was for this layer
  for (const models::GradientOf& g : partition.gradients) {
    if (forward[g.of].source != Source::input) continue;
    size_t i = std::find(inputs.begin(), inputs.end(), g.of) - inputs.begin();
    Key key = i == 0 && layer > 0 ? Key{stage, 0} : Key{s.inputs[i].stage, s.inputs[i].output};
    add_gradient(output_gradients_, key, bindings[g.gradient.index], place);
  }
}

// Differentiates and partitions each kind of layer, once for each set of weights whose gradient
// some layer adds to.
void Scan::prepare(const PassOptions& options) {
  options_ = options;
  std::set<std::string> touched;
  if (options.micro_batch == MicroBatch::further)
    for (const auto& [name, location] : layout_.by_name) touched.insert(name);

  layers_.resize(model_.stages.size());
  std::vector<std::string> descriptions;
  for (int stage = static_cast<int>(model_.stages.size()) - 1; stage >= 0; --stage) {
    const models::Stage& s = model_.stages[stage];
    bool last_stage = stage + 1 == static_cast<int>(model_.stages.size());
    if (last_stage && s.is_scan())
      throw InternalError(model_.name + ": the last stage scans; it must run once");
    layers_[stage].resize(s.layers.size());
    using Variant = std::pair<int, std::vector<ValueId>>;  // kind, weights added to
    std::map<Variant, std::shared_ptr<const Partition>> partitions;
    std::map<const Partition*, std::pair<int, int>> served;
    for (int layer = static_cast<int>(s.layers.size()) - 1; layer >= 0; --layer) {
      const Program& program = s.programs[s.layers[layer]];
      Variant variant{s.layers[layer], {}};
      for (ValueId id : program.inputs_from(Source::weight)) {
        if (!program[id].needs_gradient) continue;
        if (!touched.insert(weight_name(s, layer, program[id])).second)
          variant.second.push_back(id);
      }
      std::shared_ptr<const Partition>& known = partitions[variant];
      if (!known) {
        models::BackwardProgram backward =
            models::backward(program, {.accumulate = variant.second});
        known = std::make_shared<const Partition>(
            offload::partition(program, backward, s.is_scan() ? options.policy : keep_all(),
                               last_stage ? Turn::here : Turn::later));
      }
      layers_[stage][layer].partition = known;
      auto [range, is_new] = served.try_emplace(known.get(), layer, layer);
      range->second.first = layer;
    }
    for (const auto& [variant, partition] : partitions) {
      auto [first, last] = served[partition.get()];
      std::string title = "stage " + s.name;
      if (s.is_scan()) title += ", layers " + std::to_string(first) + " to " + std::to_string(last);
      descriptions.push_back(title + "\n" + text(*partition));
    }
  }
  for (auto d = descriptions.rbegin(); d != descriptions.rend(); ++d) description_ += *d + "\n";
}

void Scan::train(const PassOptions& options) {
  prepare(options);
  // What the host gives is on its way before anything else runs.
  for (const models::Stage& stage : model_.stages)
    for (const Program& program : stage.programs)
      for (Source source : {Source::batch, Source::scalar})
        for (ValueId id : program.inputs_from(source)) batch(program[id]);

  int stages = static_cast<int>(model_.stages.size());
  for (int stage = 0; stage < stages; ++stage)
    for (size_t layer = 0; layer < layers_[stage].size(); ++layer) {
      Layer& l = layers_[stage][layer];
      run_forward(l.partition->forward, stage, static_cast<int>(layer), l.bindings);
      for (ValueId id : l.partition->residuals)
        builder_.set_category(l.bindings[id.index], Category::kept);
    }
  for (int stage = stages - 1; stage >= 0; --stage)
    for (int layer = static_cast<int>(layers_[stage].size()) - 1; layer >= 0; --layer)
      if (!layers_[stage][layer].partition->gradients.empty()) run_backward(stage, layer);
}

}  // namespace longshore::offload
