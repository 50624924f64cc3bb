#include "models/ir/model.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "models/ir/backward.h"
#include "models/ir/trace.h"

namespace longshore::models {
namespace {

bool output_needs_gradient(const Stage& stage, int output) {
  const Program& last = stage.programs[stage.layers.back()];
  return last[last.outputs[output].value].needs_gradient;
}

void check_source(const Model& model, size_t reader, StageOutput from) {
  const std::string reads = model.name + ": stage " + model.stages[reader].name + " reads ";
  if (from.stage < 0 || from.stage >= static_cast<int>(reader))
    throw InternalError(reads + "a later stage");
  const Stage& source = model.stages[from.stage];
  const std::string output = "output " + std::to_string(from.output) + " of ";
  const int outputs = static_cast<int>(source.programs[source.layers.back()].outputs.size());
  if (from.output < 0 || from.output >= outputs)
    throw InternalError(reads + output + source.name + ", which has " + std::to_string(outputs));
  if (from.output > 0 && source.is_scan())
    throw InternalError(reads + output + "the scan " + source.name + "; only its carry leaves it");
}

void check_input(const Model& model, const Stage& stage, const Program& program, size_t i) {
  StageOutput from = stage.inputs[i];
  const Stage& source = model.stages[from.stage];
  const Program& last = source.programs[source.layers.back()];
  const Type& given = last[last.outputs[from.output].value].type;
  const Value& input = program[program.inputs_from(Source::input)[i]];
  if (given != input.type)
    throw InternalError(model.name + ": stage " + stage.name + " reads " + input.name + " as " +
                        text(input.type) + ", but " + source.name + " gives " + text(given));
}

// The carry leaves a layer as it entered it.
void check_carry(const Model& model, const Stage& stage, const Program& program) {
  std::vector<ValueId> inputs = program.inputs_from(Source::input);
  if (inputs.empty() || program.outputs.empty() ||
      program[inputs[0]].type != program[program.outputs[0].value].type)
    throw InternalError(model.name + ": stage " + stage.name + " scans " + program.name +
                        ", whose first output is not its first input's successor in type");
}

void drop_kinds_without_layers(Stage& stage) {
  std::vector<Program> programs;
  std::map<int, int> kinds;  // new ones by old ones
  for (int& kind : stage.layers) {
    auto [known, is_new] = kinds.try_emplace(kind, static_cast<int>(programs.size()));
    if (is_new) programs.push_back(std::move(stage.programs[kind]));
    kind = known->second;
  }
  stage.programs = std::move(programs);
}

// The inputs that need a gradient, given whether the carry does.
using Needing = std::function<std::vector<ValueId>(const Program&, bool carry)>;

// A layer's carry needs a gradient when something before it trains. Layers whose carry needs none
// get a copy of their kind where other layers of that kind need one.
void mark_carries(Stage& stage, bool first_needs, const Needing& needing) {
  std::vector<char> carry_needs;
  bool needs = first_needs;
  for (int kind : stage.layers) {
    carry_needs.push_back(needs);
    Program& program = stage.programs[kind];
    set_input_gradients(program, needing(program, needs));
    needs = program[program.outputs[0].value].needs_gradient;
  }
  for (int kind = 0, kinds = static_cast<int>(stage.programs.size()); kind < kinds; ++kind) {
    std::vector<size_t> layers_without;
    bool is_needed = false;
    for (size_t layer = 0; layer < stage.layers.size(); ++layer) {
      if (stage.layers[layer] != kind) continue;
      if (carry_needs[layer])
        is_needed = true;
      else
        layers_without.push_back(layer);
    }
    set_input_gradients(stage.programs[kind], needing(stage.programs[kind], is_needed));
    if (!is_needed || layers_without.empty()) continue;
    Program without = stage.programs[kind];
    set_input_gradients(without, needing(without, false));
    for (size_t layer : layers_without)
      stage.layers[layer] = static_cast<int>(stage.programs.size());
    stage.programs.push_back(std::move(without));
  }
}

}  // namespace

const Stage& main_stage(const Model& model) {
  auto is_meant = [&](const Stage& stage) {
    return stage.is_scan() && (model.main_stage.empty() || stage.name == model.main_stage);
  };
  const auto count = std::ranges::count_if(model.stages, is_meant);
  if (count != 1)
    throw InternalError(model.name + ": found " + std::to_string(count) + " scans" +
                        (model.main_stage.empty() ? "" : " named " + model.main_stage) +
                        ", expected one for the layers");
  return *std::ranges::find_if(model.stages, is_meant);
}

std::string weight_name(const Stage& stage, int layer, const Value& weight) {
  std::string prefix = stage.weight_prefix;
  if (size_t at = prefix.find("{}"); at != std::string::npos)
    prefix.replace(at, 2, std::to_string(layer));
  return prefix + weight.name;
}

std::vector<std::string> labels(const Model& model, const std::function<bool(const Stage&)>& of) {
  std::vector<std::string> labels;
  for (const Stage& stage : model.stages)
    if (of(stage))
      for (const Program& program : stage.programs)
        for (const std::string& label : program.labels())
          if (std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
  return labels;
}

void connect(Model& model) {
  for (size_t s = 0; s < model.stages.size(); ++s) {
    Stage& stage = model.stages[s];
    if (stage.layers.empty())
      throw InternalError(model.name + ": stage " + stage.name + " has no layers");
    drop_kinds_without_layers(stage);
    std::vector<char> fed_needs;
    for (StageOutput from : stage.inputs) {
      check_source(model, s, from);
      fed_needs.push_back(output_needs_gradient(model.stages[from.stage], from.output));
    }
    auto needing = [&](const Program& program, bool carry) {
      std::vector<ValueId> inputs = program.inputs_from(Source::input), needed;
      if (inputs.size() != stage.inputs.size())
        throw InternalError(model.name + ": stage " + stage.name + " is fed " +
                            std::to_string(stage.inputs.size()) + " inputs, its program reads " +
                            std::to_string(inputs.size()));
      for (size_t i = 0; i < inputs.size(); ++i)
        if (fed_needs[i] || (i == 0 && carry)) needed.push_back(inputs[i]);
      return needed;
    };
    for (Program& program : stage.programs) {
      set_input_gradients(program, needing(program, false));
      for (size_t i = 0; i < stage.inputs.size(); ++i) check_input(model, stage, program, i);
      if (stage.is_scan()) check_carry(model, stage, program);
    }
    if (stage.is_scan()) mark_carries(stage, fed_needs[0], needing);
  }
}

void set_trainable(Model& model, const std::function<bool(const std::string&)>& trains) {
  for (Stage& stage : model.stages) {
    std::vector<Program> programs;
    std::map<std::pair<std::string, std::vector<bool>>, int> kinds;  // program's name, what trains
    for (size_t layer = 0; layer < stage.layers.size(); ++layer) {
      int& kind = stage.layers[layer];
      Program program = stage.programs[kind];
      std::vector<bool> trained;
      for (ValueId id : program.inputs_from(Source::weight)) {
        Value& value = program[id];
        value.needs_gradient = trains(weight_name(stage, static_cast<int>(layer), value));
        value.weight->trainable = value.needs_gradient ? Trainable::yes : Trainable::no;
        trained.push_back(value.needs_gradient);
      }
      auto [known, is_new] =
          kinds.try_emplace({program.name, trained}, static_cast<int>(programs.size()));
      if (is_new) programs.push_back(std::move(program));
      kind = known->second;
    }
    stage.programs = std::move(programs);
  }
  connect(model);
}

Model truncated(Model model, int layers) {
  auto trains = [](const Program& program) {
    return std::ranges::any_of(program.inputs_from(Source::weight),
                               [&](ValueId id) { return program[id].needs_gradient; });
  };
  for (Stage& stage : model.stages) {
    if (!stage.is_scan() || std::ssize(stage.layers) <= layers) continue;
    auto training_from = [&](auto first) {
      return std::count_if(first, first + layers,
                           [&](int kind) { return trains(stage.programs[kind]); });
    };
    auto best = stage.layers.begin();
    for (auto first = best; stage.layers.end() - first >= layers; ++first)
      if (training_from(first) > training_from(best)) best = first;
    stage.layers = std::vector<int>(best, best + layers);
  }
  return model;
}

ParameterCount count_parameters(const Model& model) {
  std::set<std::string> seen;
  ParameterCount count;
  for (const Stage& stage : model.stages)
    for (size_t layer = 0; layer < stage.layers.size(); ++layer) {
      const Program& program = stage.program(layer);
      for (ValueId id : program.inputs_from(Source::weight)) {
        const Value& value = program[id];
        if (!seen.insert(weight_name(stage, static_cast<int>(layer), value)).second) continue;
        count.all += value.type.shape.count();
        if (value.weight->trainable == Trainable::yes) count.trainable += value.type.shape.count();
      }
    }
  return count;
}

}  // namespace longshore::models
