// run_once() and scan() make stages of programs, connected() a model of stages, and stage_named()
// finds the stage of a model, as a known family's, for a model of your own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "longshore/models/ir/model.h"

namespace longshore::models {

// A stage that runs once, named as the program; its weights have the program's names.
Stage run_once(Program program, std::vector<StageInput> inputs = {});

// A stage that runs the program for each of `layers` layers; weights of layer 3 are
// "NAME.3.WEIGHT". The first input is what enters layer 0.
Stage scan(const std::string& name, Program layer, int layers, std::vector<StageInput> inputs);

// Throws as connect() does.
Model connected(std::string name, std::vector<Stage> stages);

// Throws UsageError for a name that the model does not have, listing those that it has. What the
// stage reads of others is Stage::inputs, which count the stages of that model.
const Stage& stage_named(const Model& model, std::string_view name);

}  // namespace longshore::models
