#include "longshore/models/ir/stages.h"

#include <algorithm>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/text.h"

namespace longshore::models {

Stage run_once(Program program, std::vector<StageInput> inputs) {
  Stage stage{.name = program.name,
              .weight_prefix = "",
              .programs = {},
              .layers = {0},
              .inputs = std::move(inputs)};
  stage.programs.push_back(std::move(program));
  return stage;
}

Stage scan(const std::string& name, Program layer, int layers, std::vector<StageInput> inputs) {
  Stage stage = run_once(std::move(layer), std::move(inputs));
  stage.name = name;
  stage.weight_prefix = name + ".{}.";
  stage.layers = std::vector<int>(static_cast<size_t>(layers), 0);
  return stage;
}

Model connected(std::string name, std::vector<Stage> stages) {
  Model model{.name = std::move(name), .stages = std::move(stages)};
  connect(model);
  return model;
}

const Stage& stage_named(const Model& model, std::string_view name) {
  const auto found = std::ranges::find(model.stages, name, &Stage::name);
  if (found != model.stages.end()) return *found;
  std::vector<std::string> names;
  for (const Stage& stage : model.stages) names.push_back(stage.name);
  throw UsageError(model.name + ": no stage is named '" + std::string(name) + "'; there are " +
                   join(names));
}

}  // namespace longshore::models
