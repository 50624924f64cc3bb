#include "models/model.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "models/backward.h"
#include "models/ops/add.h"
#include "models/trace.h"

namespace longshore::models {
namespace {

bool output_needs_gradient(const Stage& stage, int output) {
  const Program& last = stage.programs[stage.layers.back()];
  return last[last.outputs[output].value].needs_gradient;
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

}  // namespace

std::string weight_name(const Stage& stage, int layer, const Value& weight) {
  std::string prefix = stage.weight_prefix;
  if (size_t at = prefix.find("{}"); at != std::string::npos)
    prefix.replace(at, 2, std::to_string(layer));
  return prefix + weight.name;
}

void connect(Model& model) {
  for (size_t s = 0; s < model.stages.size(); ++s) {
    Stage& stage = model.stages[s];
    std::vector<char> fed_needs;
    for (StageOutput from : stage.inputs) {
      if (from.stage < 0 || from.stage >= static_cast<int>(s))
        throw InternalError(model.name + ": stage " + stage.name + " reads a later stage");
      const Stage& source = model.stages[from.stage];
      int outputs = static_cast<int>(source.programs[source.layers.back()].outputs.size());
      if (from.output < 0 || from.output >= outputs)
        throw InternalError(model.name + ": stage " + stage.name + " reads output " +
                            std::to_string(from.output) + " of " + source.name + ", which has " +
                            std::to_string(outputs));
      if (from.output > 0 && source.is_scan())
        throw InternalError(model.name + ": stage " + stage.name + " reads output " +
                            std::to_string(from.output) + " of the scan " +
                            model.stages[from.stage].name + "; only its carry leaves it");
      fed_needs.push_back(output_needs_gradient(model.stages[from.stage], from.output));
    }
    auto needing = [&](const Program& program, bool carry) {
      std::vector<ValueId> inputs = program.inputs_from(Source::input), needing;
      if (inputs.size() != stage.inputs.size())
        throw InternalError(model.name + ": stage " + stage.name + " is fed " +
                            std::to_string(stage.inputs.size()) + " inputs, its program reads " +
                            std::to_string(inputs.size()));
      for (size_t i = 0; i < inputs.size(); ++i)
        if (fed_needs[i] || (i == 0 && carry)) needing.push_back(inputs[i]);
      return needing;
    };
    for (Program& program : stage.programs) {
      set_input_gradients(program, needing(program, false));
      for (size_t i = 0; i < stage.inputs.size(); ++i) check_input(model, stage, program, i);
      if (stage.is_scan()) check_carry(model, stage, program);
    }
    if (stage.layers.size() < 2 || fed_needs[0]) continue;

    bool trains = std::any_of(stage.programs.begin(), stage.programs.end(), [](const Program& p) {
      return p[p.outputs[0].value].needs_gradient;
    });
    if (!trains) continue;
    Program first = stage.programs[stage.layers[0]];
    for (Program& program : stage.programs) set_input_gradients(program, needing(program, true));
    stage.layers[0] = static_cast<int>(stage.programs.size());
    stage.programs.push_back(std::move(first));
  }
}

Program addition(const Type& type) {
  Trace t("addition");
  Var a = t.input("a", type), b = t.input("b", type);
  t.output(add(a, b));
  return t.finish();
}

int64_t parameter_count(const Model& model) {
  std::set<std::string> seen;
  int64_t count = 0;
  for (const Stage& stage : model.stages)
    for (size_t layer = 0; layer < stage.layers.size(); ++layer) {
      const Program& program = stage.programs[stage.layers[layer]];
      for (ValueId id : program.inputs_from(Source::weight))
        if (seen.insert(weight_name(stage, static_cast<int>(layer), program[id])).second)
          count += program[id].type.shape.count();
    }
  return count;
}

}  // namespace longshore::models
