#include "longshore/offload/lowering/scan.h"

#include <algorithm>
#include <set>

#include "longshore/base/error.h"
#include "longshore/models/ir/add.h"

namespace longshore::offload {

using models::Output;
using models::OutputRole;
using models::Program;
using models::Source;
using models::Type;
using models::Value;
using models::ValueId;

std::string carry_name(const std::string& stage, int layer) {
  return stage + ".carry." + std::to_string(layer);
}

std::string state_name(const std::string& stage, int layer, const std::string& state) {
  return stage + "." + std::to_string(layer) + "." + state;
}

// --- forward

std::map<ValueId, Scan::Key> Scan::feeders(const Program& program, int stage, int layer) const {
  const models::Stage& s = model_.stages[stage];
  std::map<ValueId, Key> feeders;
  const std::vector<ValueId> inputs = program.inputs_from(Source::input);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const models::StageInput from = s.inputs[i];
    const int last_layer = static_cast<int>(model_.stages[from.stage].layers.size()) - 1;
    feeders[inputs[i]] = i == 0 && layer > 0 ? Key{stage, layer - 1, 0}
                                             : Key{from.stage, last_layer, from.output_for(layer)};
  }
  const std::vector<ValueId> earlier = program.inputs_from(Source::earlier_layer);
  const std::vector<models::LayerOutput> from = from_earlier_layers(s, layer);
  for (size_t i = 0; i < earlier.size(); ++i)
    feeders[earlier[i]] = {stage, from[i].layer, from[i].output};
  return feeders;
}

void Scan::bind_inputs(const Program& program, int stage, int layer,
                       PlanBuilder::Bindings& bindings) {
  const models::Stage& s = model_.stages[stage];
  bindings.resize(program.values.size());
  for (const auto& [input, feeder] : feeders(program, stage, layer))
    bindings[input.index] = outputs_.at(feeder);
  // What the layer before calls its sum, reports call what it is to this one.
  if (s.is_scan()) {
    const ValueId carry = program.inputs_from(Source::input)[0];
    builder_.rename(bindings[carry.index], program[carry].name);
  }
  for (ValueId id : program.inputs) {
    const Value& value = program[id];
    if (value.source == Source::weight)
      bindings[id.index] = operands_.weight(weight_name(s, layer, value));
    else if (value.source == Source::batch || value.source == Source::scalar)
      bindings[id.index] = operands_.batch(value);
    else if (value.source == Source::state)
      bindings[id.index] = operands_.state(state_name(s.name, layer, value.name), value.type);
  }
  const std::vector<ValueId> states = program.inputs_from(Source::state);
  auto state = states.begin();
  for (const Output& output : program.outputs)
    if (output.role == OutputRole::state) bindings[output.value.index] = bindings[(state++)->index];
}

void Scan::run_forward(const Program& program, int stage, int layer,
                       PlanBuilder::Bindings& bindings, const PlanBuilder::AfterNode& after) {
  Scope scope{model_.stages[stage].name, layer, Phase::forward};
  auto runs_here = [&](const Output& output) {
    return program[output.value].source != Source::node ||
           std::any_of(program.nodes.begin(), program.nodes.end(), [&](const models::Node& node) {
             return std::find(node.out.begin(), node.out.end(), output.value) != node.out.end();
           });
  };
  auto is_residual = [&](ValueId value) {
    return !layers_.empty() &&
           std::ranges::any_of(layers_[stage][layer].partition->residuals,
                               [&](const Residual& residual) { return residual.value == value; });
  };
  for (const Output& output : program.outputs)
    if (is_summed(output.role) && runs_here(output) && !is_residual(output.value))
      losses_->bind(program, output.value, output.role, bindings);
  builder_.run(program, bindings, scope, Lane::compute, after);
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    const Output& output = program.outputs[o];
    if (output.role == OutputRole::value || output.role == OutputRole::later_layers)
      outputs_[{stage, layer, static_cast<int>(o)}] = bindings[output.value.index];
    else if (output.role == OutputRole::log_probs)
      operands_.give_to_host(kLogProbs, bindings[output.value.index], scope);
    else if (is_summed(output.role) && runs_here(output))
      losses_->add(output.value, output.role, bindings, scope);
  }
}

void Scan::give_to_host(const std::string& name, const Operand& value, const Scope& scope) {
  Operand host =
      builder_.argument(host_name(name), value.type, MemoryKind::pinned_host, Category::batch);
  builder_.move(Lane::device_to_host, value, host, scope);
}

void Scan::forward(Carries carries) {
  options_ = {.policy = keep_all()};
  losses_.emplace(builder_, options_.micro_batch);
  for (int stage = 0; stage < static_cast<int>(model_.stages.size()); ++stage) {
    const models::Stage& s = model_.stages[stage];
    bool returns = carries == Carries::returned && s.is_scan();
    for (int layer = 0; layer < static_cast<int>(s.layers.size()); ++layer) {
      const Program& program = s.program(layer);
      Scope scope{.stage = s.name, .layer = layer};
      PlanBuilder::Bindings bindings;
      bind_inputs(program, stage, layer, bindings);
      if (returns && layer == 0)
        give_to_host(carry_name(s.name, 0), bindings[program.inputs_from(Source::input)[0].index],
                     scope);
      run_forward(program, stage, layer, bindings);
      if (returns)
        give_to_host(carry_name(s.name, layer + 1), outputs_.at({stage, layer, 0}), scope);
    }
  }
  const int last = static_cast<int>(model_.stages.size()) - 1;
  const int last_layer = static_cast<int>(model_.stages[last].layers.size()) - 1;
  for (const auto& [key, operand] : outputs_)
    if (key.stage == last && key.layer == last_layer)
      give_to_host("output." + std::to_string(key.output), operand,
                   {.stage = model_.stages[last].name});
}

// --- backward

void Scan::add_output_gradient(Key key, const Operand& gradient, const Scope& scope) {
  Operand& sum = output_gradients_[key];
  if (!sum) {
    sum = gradient;
    return;
  }
  Program addition = models::addition(gradient.type);
  PlanBuilder::Bindings operands{sum, gradient};
  builder_.run(addition, operands, scope);
  sum = operands.back();
}

namespace {

// The values that follow from it, by index; it is one of them.
std::vector<char> followers(const Program& program, ValueId value) {
  std::vector<char> follow(program.values.size());
  follow[value.index] = true;
  for (const models::Node& node : program.nodes)
    if (std::ranges::any_of(node.in, [&](ValueId in) { return follow[in.index]; }))
      for (ValueId out : node.out) follow[out.index] = true;
  return follow;
}

// Binds to a gradient's home the gradient and the sums that it was added up from in place. Where
// the home holds the accumulator already, only what was added to that may be written there.
void bind_sums(const Program& program, ValueId sum, ValueId accumulator, const Operand& home,
               PlanBuilder::Bindings& bindings) {
  const std::vector<char> added_to = accumulator ? followers(program, accumulator)
                                                 : std::vector<char>(program.values.size(), true);
  auto is_only_added_to = [&](ValueId id) {
    return added_to[id.index] && !bindings[id.index] && program[id].source == Source::node &&
           program[id].producer >= 0 &&
           std::ranges::none_of(program.outputs, [&](const Output& o) { return o.value == id; }) &&
           std::ranges::count_if(program.nodes, [&](const models::Node& n) {
             return std::ranges::find(n.in, id) != n.in.end();
           }) == 1;
  };
  while (sum) {
    bindings[sum.index] = home;
    const models::Node& node = program.nodes[program[sum].producer];
    ValueId before;
    for (models::Reuse reuse : node.op->in_place(node.attrs, static_cast<int>(node.in.size()))) {
      ValueId in = node.in[reuse.in];
      if (!before && node.out[reuse.out] == sum && program[in].type == program[sum].type &&
          is_only_added_to(in))
        before = in;
    }
    sum = before;
  }
}

class Progress {
 public:
  explicit Progress(const Program& program) : program_(program) {
    for (const models::Node& node : program.nodes) total_ += program.cost(node).flops;
  }
  // The share of the program's FLOPs that is done when this node is, being called for each in turn.
  double behind(const models::Node& node) {
    done_ += program_.cost(node).flops;
    return total_ > 0 ? done_ / total_ : 1;
  }

 private:
  const Program& program_;
  double done_ = 0, total_ = 0;
};

}  // namespace

void Scan::bind_cotangents(int stage, int layer, PlanBuilder::Bindings& bindings) {
  const models::Stage& s = model_.stages[stage];
  const Partition& partition = *layers_[stage][layer].partition;
  for (size_t o = 0; o < partition.forward.outputs.size(); ++o) {
    if (!partition.cotangents[o]) continue;
    Operand& cotangent = bindings[partition.cotangents[o].index];
    switch (partition.forward.outputs[o].role) {
      case OutputRole::loss:
        cotangent = operands_.scalar(kLossGradient);
        break;
      case OutputRole::sft_loss:
        cotangent = operands_.scalar(kSftLossGradient);
        break;
      case OutputRole::auxiliary_loss:
        cotangent = operands_.scalar(kAuxiliaryLossGradient);
        break;
      case OutputRole::expert_load:
      case OutputRole::log_probs:
      case OutputRole::state:
        throw InternalError(model_.name + ": stage " + s.name + " has a gradient of what has none");
      case OutputRole::value:
      case OutputRole::later_layers:
        cotangent = output_gradients_[{stage, layer, static_cast<int>(o)}];
        if (!cotangent)
          throw InternalError(model_.name + ": nothing that trains reads output " +
                              std::to_string(o) + " of stage " + s.name);
        break;
    }
  }
}

Operand Scan::home_of_gradient(int stage, int layer, ValueId weight) {
  const Program& forward = layers_[stage][layer].partition->forward;
  return operands_.gradient(weight_name(model_.stages[stage], layer, forward[weight]));
}

Scan::WeightGradients Scan::bind_weight_gradients(int stage, int layer,
                                                  PlanBuilder::Bindings& bindings) {
  const Partition& partition = *layers_[stage][layer].partition;
  for (const auto& [weight, sum] : partition.accumulators)
    bindings[sum.index] = home_of_gradient(stage, layer, weight);
  auto accumulator_of = [&](ValueId weight) {
    auto found = std::ranges::find(partition.accumulators, weight, &models::Accumulator::weight);
    return found == partition.accumulators.end() ? ValueId{} : found->sum;
  };
  // What earlier layers still read must not be added to in a weight's home.
  auto is_of_input = [&](ValueId gradient) {
    return std::ranges::any_of(partition.gradients, [&](const models::GradientOf& other) {
      return other.gradient == gradient && partition.forward[other.of].source != Source::weight;
    });
  };
  const auto& final_gradients = layers_[stage][layer].final_gradients;
  WeightGradients gradients;
  for (const models::GradientOf& g : partition.gradients) {
    if (partition.forward[g.of].source != Source::weight) continue;
    if (bindings[g.gradient.index] || is_of_input(g.gradient)) {
      gradients.elsewhere.push_back(g);
      continue;
    }
    bind_sums(partition.backward, g.gradient, accumulator_of(g.of),
              home_of_gradient(stage, layer, g.of), bindings);
    if (auto location = final_gradients.find(g.of); location != final_gradients.end())
      gradients.final_at_home[g.gradient] = location->second;
  }
  return gradients;
}

void Scan::run_backward(int stage, int layer) {
  Layer& l = layers_[stage][layer];
  const Partition& partition = *l.partition;
  const Program& backward = partition.backward;
  const Scope scope{model_.stages[stage].name, layer, Phase::backward};
  PlanBuilder::Bindings bindings = std::move(l.bindings);
  bindings.resize(backward.values.size());
  bind_cotangents(stage, layer, bindings);
  const WeightGradients gradients = bind_weight_gradients(stage, layer, bindings);
  auto role_of = [&](ValueId output) {
    return std::ranges::find(partition.forward.outputs, output, &Output::value)->role;
  };
  for (const auto& [output, value] : partition.remade_outputs)
    losses_->bind(backward, value, role_of(output), bindings);

  auto tell = [&](const ParameterLayout::Location& location) {
    if (options_.on_parameter_gradient) options_.on_parameter_gradient(location, scope);
  };
  Progress progress(backward);
  builder_.run(backward, bindings, scope, Lane::compute, [&](const models::Node& node) {
    for (ValueId id : node.out)
      if (auto made = gradients.final_at_home.find(id); made != gradients.final_at_home.end())
        tell(made->second);
    if (options_.on_backward_progress)
      options_.on_backward_progress(stage, layer, progress.behind(node));
  });
  for (const models::GradientOf& g : gradients.elsewhere) {
    builder_.move(bindings[g.gradient.index], home_of_gradient(stage, layer, g.of), scope);
    if (auto made = l.final_gradients.find(g.of); made != l.final_gradients.end())
      tell(made->second);
  }
  for (const auto& [output, value] : partition.remade_outputs)
    losses_->add(value, role_of(output), bindings, scope);
  add_input_gradients(stage, layer, bindings);
  reductions_->go_on(scope);
  for (const auto& [value, location] : l.final_gradients) reductions_->add(location.bucket, scope);
}

void Scan::add_input_gradients(int stage, int layer, const PlanBuilder::Bindings& bindings) {
  const Partition& partition = *layers_[stage][layer].partition;
  const std::map<ValueId, Key> fed_by = feeders(partition.forward, stage, layer);
  for (const models::GradientOf& g : partition.gradients)
    if (auto feeder = fed_by.find(g.of); feeder != fed_by.end())
      add_output_gradient(feeder->second, bindings[g.gradient.index],
                          {model_.stages[stage].name, layer, Phase::backward});
}

// --- before a pass

void Scan::prepare(const PassOptions& options) {
  options_ = options;
  losses_.emplace(builder_, options.micro_batch);
  reductions_.emplace(operands_, options_);
  const bool adds = !begins_step(options.micro_batch) && !operands_.gradients_start_anew();
  LayerPartitions partitions = partition_layers(
      model_, options.policy, adds ? InitialGradients::earlier_sums : InitialGradients::nothing);
  layers_.resize(partitions.by_layer.size());
  for (size_t stage = 0; stage < layers_.size(); ++stage)
    for (std::shared_ptr<const Partition>& partition : partitions.by_layer[stage])
      layers_[stage].push_back(
          {.partition = std::move(partition), .bindings = {}, .final_gradients = {}});
  layer_plans_ = std::move(partitions.plans);
  find_final_gradients();
}

// The backward pass goes from the last stage to the first, so the first that has a weight is the
// last to touch its gradient.
void Scan::find_final_gradients() {
  std::set<std::string> seen;
  for (size_t stage = 0; stage < layers_.size(); ++stage)
    for (size_t layer = 0; layer < layers_[stage].size(); ++layer) {
      Layer& l = layers_[stage][layer];
      for (const models::GradientOf& g : l.partition->gradients) {
        const Value& value = l.partition->forward[g.of];
        if (value.source != Source::weight) continue;
        std::string name = weight_name(model_.stages[stage], static_cast<int>(layer), value);
        if (!seen.insert(name).second) continue;
        ParameterLayout::Location location = operands_.layout().by_name.at(name);
        l.final_gradients[g.of] = location;
        reductions_->expect(location.bucket);
      }
    }
  for (const auto& [name, location] : operands_.layout().by_name)
    if (operands_.layout().bucket(location).trainable == models::Trainable::yes &&
        !seen.contains(name))
      throw InternalError(model_.name + ": parameter " + name +
                          " trains, but no loss depends on it");
}

// --- a pass

void Scan::train_forward(int stage, int layer) {
  Layer& l = layers_[stage][layer];
  const Program& forward = l.partition->forward;
  Scope scope{model_.stages[stage].name, layer, Phase::forward};
  std::map<ValueId, Operand> sent;  // what the backward pass finds through staged ranges
  auto send = [&](const Residual& residual) {
    if (residual.action == Action::offload)
      sent[residual.value] = builder_.offload(l.bindings[residual.value.index], scope);
  };
  Progress progress(forward);
  auto reached = [&](double done) {
    if (options_.on_forward_progress) options_.on_forward_progress(stage, layer, done);
  };
  reached(0);
  bind_inputs(forward, stage, layer, l.bindings);
  for (const Residual& residual : l.partition->residuals)
    if (forward[residual.value].source == Source::input) send(residual);
  run_forward(forward, stage, layer, l.bindings, [&](const models::Node& node) {
    for (const Residual& residual : l.partition->residuals)
      if (std::find(node.out.begin(), node.out.end(), residual.value) != node.out.end())
        send(residual);
    reached(progress.behind(node));
  });
  for (const Residual& residual : l.partition->residuals)
    if (residual.action == Action::keep)
      builder_.set_category(l.bindings[residual.value.index], Category::kept);
  for (const auto& [value, staged] : sent) l.bindings[value.index] = staged;
}

void Scan::train(const PassOptions& options) {
  prepare(options);
  // What the host gives is on its way before anything else runs.
  for (const models::Stage& stage : model_.stages)
    for (const Program& program : stage.programs)
      for (Source source : {Source::batch, Source::scalar})
        for (ValueId id : program.inputs_from(source)) operands_.batch(program[id]);

  int stages = static_cast<int>(model_.stages.size());
  for (int stage = 0; stage < stages; ++stage)
    for (size_t layer = 0; layer < layers_[stage].size(); ++layer)
      train_forward(stage, static_cast<int>(layer));
  for (int stage = stages - 1; stage >= 0; --stage)
    for (int layer = static_cast<int>(layers_[stage].size()) - 1; layer >= 0; --layer)
      if (!layers_[stage][layer].partition->gradients.empty()) run_backward(stage, layer);
  reductions_->finish({.stage = model_.stages[0].name, .phase = Phase::backward});
}

}  // namespace longshore::offload
