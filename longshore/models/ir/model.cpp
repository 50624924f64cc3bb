#include "longshore/models/ir/model.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "longshore/base/error.h"
#include "longshore/base/numbered.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/trace.h"

namespace longshore::models {
namespace {

bool output_needs_gradient(const Stage& stage, int output) {
  const Program& last = stage.programs[stage.layers.back()];
  return last[last.outputs[output].value].needs_gradient;
}

void check_source(const Model& model, size_t reader, StageInput from, int layer) {
  const std::string reads = model.name + ": stage " + model.stages[reader].name + " reads ";
  if (from.stage < 0 || from.stage >= static_cast<int>(reader))
    throw InternalError(reads + "a later stage");
  const Stage& source = model.stages[from.stage];
  const int output = from.output_for(layer);
  const std::string said = "output " + std::to_string(output) + " of ";
  const int outputs = static_cast<int>(source.programs[source.layers.back()].outputs.size());
  if (output < 0 || output >= outputs)
    throw InternalError(reads + said + source.name + ", which has " + std::to_string(outputs));
  if (output > 0 && source.is_scan())
    throw InternalError(reads + said + "the scan " + source.name + "; only its carry leaves it");
}

void check_input(const Model& model, const Stage& stage, int layer, size_t i) {
  const StageInput from = stage.inputs[i];
  const Stage& source = model.stages[from.stage];
  const Program &program = stage.program(layer), &last = source.programs[source.layers.back()];
  const Type& given = last[last.outputs[from.output_for(layer)].value].type;
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

// The inputs of a layer that need a gradient, given whether its carry does and which outputs of
// earlier layers do.
std::vector<ValueId> inputs_that_need_one(const Model& model, const Stage& stage, int layer,
                                          bool carry_needs,
                                          const std::vector<std::vector<char>>& outputs_need) {
  const Program& program = stage.program(layer);
  auto fed_needs = [&](StageInput from) {
    return output_needs_gradient(model.stages[from.stage], from.output_for(layer));
  };
  std::vector<ValueId> needed;
  const std::vector<ValueId> fed = program.inputs_from(Source::input);
  for (size_t i = 0; i < fed.size(); ++i)
    if (i == 0 && layer > 0 ? carry_needs : fed_needs(stage.inputs[i])) needed.push_back(fed[i]);
  const std::vector<ValueId> earlier = program.inputs_from(Source::earlier_layer);
  const std::vector<LayerOutput> from = from_earlier_layers(stage, layer);
  for (size_t i = 0; i < earlier.size(); ++i)
    if (outputs_need[from[i].layer][from[i].output]) needed.push_back(earlier[i]);
  return needed;
}

// Where layers of one kind differ in the inputs that need a gradient, those with most keep it, and
// the others get copies of it.
void mark_inputs(const Model& model, Stage& stage) {
  std::vector<std::vector<ValueId>> needed;  // by layer
  std::vector<std::vector<char>> outputs_need;
  bool carry_needs = false;
  for (int layer = 0; layer < std::ssize(stage.layers); ++layer) {
    needed.push_back(inputs_that_need_one(model, stage, layer, carry_needs, outputs_need));
    Program& program = stage.programs[stage.layers[layer]];
    set_input_gradients(program, needed.back());
    std::vector<char>& of_layer = outputs_need.emplace_back();
    for (const Output& output : program.outputs)
      of_layer.push_back(program[output.value].needs_gradient);
    carry_needs = of_layer[0];
  }
  for (int kind = 0, kinds = static_cast<int>(stage.programs.size()); kind < kinds; ++kind) {
    std::vector<std::vector<ValueId>> variants;
    for (int layer = 0; layer < std::ssize(stage.layers); ++layer)
      if (stage.layers[layer] == kind &&
          std::ranges::find(variants, needed[layer]) == variants.end())
        variants.push_back(needed[layer]);
    std::ranges::stable_sort(variants, std::greater<>{}, &std::vector<ValueId>::size);
    set_input_gradients(stage.programs[kind], variants[0]);
    for (size_t i = 1; i < variants.size(); ++i) {
      Program copy = stage.programs[kind];
      set_input_gradients(copy, variants[i]);
      for (int layer = 0; layer < std::ssize(stage.layers); ++layer)
        if (stage.layers[layer] == kind && needed[layer] == variants[i])
          stage.layers[layer] = static_cast<int>(stage.programs.size());
      stage.programs.push_back(std::move(copy));
    }
  }
}

// The outputs to later layers of the layers [first, last) that none of them reads, and their inputs
// from earlier layers that none of them gives.
std::vector<LayerOutput> loose_ends(const Stage& stage, int first, int last) {
  std::set<LayerOutput> given, read;
  for (int layer = first; layer < last; ++layer) {
    const std::vector<Output>& outputs = stage.program(layer).outputs;
    for (int o = 0; o < std::ssize(outputs); ++o)
      if (outputs[o].role == OutputRole::later_layers) given.insert({layer, o});
    for (LayerOutput from : from_earlier_layers(stage, layer)) read.insert(from);
  }
  std::vector<LayerOutput> loose;
  std::ranges::set_symmetric_difference(given, read, std::back_inserter(loose));
  return loose;
}

void check_layers(const Model& model, const Stage& stage) {
  for (int layer = 0; layer < std::ssize(stage.layers); ++layer) {
    const Program& program = stage.program(layer);
    const std::vector<ValueId> earlier = program.inputs_from(Source::earlier_layer);
    const std::vector<LayerOutput> from = from_earlier_layers(stage, layer);
    for (size_t i = 0; i < earlier.size(); ++i) {
      const Program& giver = stage.program(from[i].layer);
      const Type& given = giver[giver.outputs[from[i].output].value].type;
      if (given != program[earlier[i]].type)
        throw InternalError(model.name + ": layer " + std::to_string(layer) + " of " + stage.name +
                            " reads " + program[earlier[i]].name + " as " +
                            text(program[earlier[i]].type) + ", but layer " +
                            std::to_string(from[i].layer) + " gives " + text(given));
    }
  }
  for (LayerOutput loose : loose_ends(stage, 0, static_cast<int>(stage.layers.size())))
    throw InternalError(model.name + ": no layer of " + stage.name + " reads " +
                        stage.program(loose.layer).outputs[loose.output].name + " of layer " +
                        std::to_string(loose.layer));
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

namespace {

std::string full_name(const Stage& stage, int layer, const std::string& name) {
  return numbered(stage.weight_prefix, layer) + name;
}

}  // namespace

std::string weight_name(const Stage& stage, int layer, const Value& weight) {
  return full_name(stage, layer, weight.name);
}

std::vector<std::string> saved_names(const Stage& stage, int layer, const Value& value) {
  const Weight& weight = value.weight.value();
  if (!weight.saved_slices)
    return {
        full_name(stage, layer, weight.saved_section ? weight.saved_section->tensor : value.name)};
  std::vector<std::string> names;
  for (int64_t slice = 0; slice < value.type.shape[0]; ++slice)
    names.push_back(full_name(stage, layer, numbered(*weight.saved_slices, slice)));
  return names;
}

std::vector<LayerOutput> from_earlier_layers(const Stage& stage, int layer) {
  const Program& program = stage.program(layer);
  std::vector<LayerOutput> from;
  for (ValueId id : program.inputs_from(Source::earlier_layer)) {
    auto output_of = [&](int giver) {
      const auto& outputs = stage.program(giver).outputs;
      const auto found = std::ranges::find(outputs, program[id].name, &Output::name);
      return found == outputs.end() ? -1 : static_cast<int>(found - outputs.begin());
    };
    int giver = layer - 1;
    while (giver >= 0 && output_of(giver) < 0) --giver;
    if (giver < 0)
      throw InternalError("stage " + stage.name + ": layer " + std::to_string(layer) + " reads " +
                          program[id].name + ", which no earlier layer gives");
    from.push_back({giver, output_of(giver)});
  }
  return from;
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
    const int layers = static_cast<int>(stage.layers.size());
    for (StageInput from : stage.inputs)
      for (int layer : {0, layers - 1}) check_source(model, s, from, layer);
    for (const Program& program : stage.programs) {
      if (const size_t inputs = program.inputs_from(Source::input).size();
          inputs != stage.inputs.size())
        throw InternalError(model.name + ": stage " + stage.name + " is fed " +
                            std::to_string(stage.inputs.size()) + " inputs, its program reads " +
                            std::to_string(inputs));
      if (stage.is_scan()) check_carry(model, stage, program);
    }
    for (int layer = 0; layer < layers; ++layer)
      for (size_t i = 0; i < stage.inputs.size(); ++i) check_input(model, stage, layer, i);
    check_layers(model, stage);
    mark_inputs(model, stage);
  }
}

void set_trainable(Model& model, const std::function<bool(const std::string&)>& trains) {
  for (Stage& stage : model.stages) {
    std::vector<Program> programs;
    using Trained = std::vector<std::vector<bool>>;        // of each weight its tensors
    std::map<std::pair<std::string, Trained>, int> kinds;  // by the program's name too
    for (size_t layer = 0; layer < stage.layers.size(); ++layer) {
      int& kind = stage.layers[layer];
      Program program = stage.programs[kind];
      Trained trained;
      for (ValueId id : program.inputs_from(Source::weight)) {
        Value& value = program[id];
        std::vector<bool>& tensors = trained.emplace_back();
        for (const std::string& name : saved_names(stage, static_cast<int>(layer), value))
          tensors.push_back(!value.weight->never_trains && trains(name));
        const auto count = std::ranges::count(tensors, true);
        value.needs_gradient = count > 0;
        value.weight->trainable = value.needs_gradient ? Trainable::yes : Trainable::no;
        const bool are_some = count > 0 && count < std::ssize(tensors);
        value.weight->trained_slices = are_some ? tensors : std::vector<bool>{};
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

namespace {

// Of stages that run once, but for the last, what no later stage reads.
void drop_unread_outputs(Model& model) {
  std::vector<std::set<int>> read(model.stages.size());  // outputs, by stage
  for (const Stage& stage : model.stages)
    for (StageInput from : stage.inputs)
      for (int layer = 0; layer < std::ssize(stage.layers); ++layer)
        read[from.stage].insert(from.output_for(layer));
  for (size_t s = 0; s + 1 < model.stages.size(); ++s) {
    if (model.stages[s].is_scan()) continue;
    Program& program = model.stages[s].programs[0];
    std::vector<Output> outputs;
    std::vector<ValueId> needed;
    std::map<int, int> now;  // of outputs, by what they were
    for (int o = 0; o < std::ssize(program.outputs); ++o) {
      if (program.outputs[o].role == OutputRole::value && !read[s].contains(o)) continue;
      now[o] = static_cast<int>(outputs.size());
      outputs.push_back(program.outputs[o]);
      needed.push_back(program.outputs[o].value);
    }
    program.outputs = std::move(outputs);
    program.drop_nodes_but_for(needed);
    for (Stage& stage : model.stages)
      for (StageInput& from : stage.inputs)
        if (from.stage == static_cast<int>(s)) from.output = now.at(from.output);
  }
}

}  // namespace

Model truncated(Model model, int layers) {
  auto trains = [](const Program& program) {
    return std::ranges::any_of(program.inputs_from(Source::weight),
                               [&](ValueId id) { return program[id].needs_gradient; });
  };
  const std::string name = main_stage(model).name;
  Stage& stage = *std::ranges::find(model.stages, name, &Stage::name);
  if (std::ssize(stage.layers) <= layers) return model;
  auto training_from = [&](int first) {
    return std::count_if(stage.layers.begin() + first, stage.layers.begin() + first + layers,
                         [&](int kind) { return trains(stage.programs[kind]); });
  };
  std::optional<int> best;
  for (int first = 0; first + layers <= std::ssize(stage.layers); ++first)
    if (loose_ends(stage, first, first + layers).empty() &&
        (!best || training_from(first) > training_from(*best)))
      best = first;
  if (!best) return model;
  stage.layers =
      std::vector<int>(stage.layers.begin() + *best, stage.layers.begin() + *best + layers);
  for (StageInput& input : stage.inputs) input.output = input.output_for(*best);
  drop_unread_outputs(model);
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
        const Type& numbers =
            value.weight->quantized ? value.weight->quantized->numbers : value.type;
        const int64_t elements = tensor_shape(numbers.shape, value.weight->split).count();
        count.all += elements;
        if (value.weight->trainable == Trainable::no) continue;
        const std::vector<bool>& slices = value.weight->trained_slices;
        count.trainable += slices.empty()
                               ? elements
                               : elements / std::ssize(slices) * std::ranges::count(slices, true);
      }
    }
  return count;
}

}  // namespace longshore::models
