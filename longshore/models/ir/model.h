// A model: a small DAG of stages. A stage runs once, or scans: it runs one program for each layer,
// the carry (input 0, output 0) going from layer to layer. A layer may give further values to later
// layers, and read an output of an earlier stage that is for it alone. Nothing but the carry,
// losses and loads of experts leaves a scan.
//
// Parameters are known by their full names (Hugging Face's): the stage's prefix, with the layer's
// number in place of "{}", and the weight's name in the program. The same full name in two stages
// is one parameter (tied embeddings); the first stage that names it owns it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "longshore/models/ir/program.h"

namespace longshore::models {

// An output of an earlier stage: the same for all layers, or to each layer one of its own.
struct StageInput {
  int stage = 0;
  int output = 0;         // that layer 0 reads
  bool by_layer = false;  // further layers read those that follow it

  int output_for(int layer) const { return by_layer ? output + layer : output; }
};

struct Stage {
  std::string name;
  std::string weight_prefix;  // "model.layers.{}." in a scan
  // The kinds of layer there are, forward. Those of one name differ in what they train at most.
  std::vector<Program> programs;
  std::vector<int> layers;         // for each layer its kind; {0} for a stage that runs once
  std::vector<StageInput> inputs;  // what feeds each Source::input of the programs, in order

  const Program& program(int layer) const { return programs[layers[layer]]; }
  bool is_scan() const { return weight_prefix.find("{}") != std::string::npos; }
};

struct Model {
  std::string name;
  std::vector<Stage> stages;  // each reads earlier ones only
  // The scan that keys without a stage's name mean, such as base_num_decoder_layers and
  // remat_policy; "": the only one.
  std::string main_stage = {};
};

// The scan that Model::main_stage names. Throws InternalError where there is none, or where it is
// not named and there are several.
const Stage& main_stage(const Model& model);

std::string weight_name(const Stage& stage, int layer, const Value& weight);
// The names of its tensors in checkpoints: its own, that of a tensor which has rows of other
// weights too, or one for each of its first dimension.
std::vector<std::string> saved_names(const Stage& stage, int layer, const Value& weight);

// An output of a layer of a scan.
struct LayerOutput {
  int layer = 0;
  int output = 0;
  auto operator<=>(const LayerOutput&) const = default;
};

// What the layer's inputs from earlier layers (Source::earlier_layer) are, in their order. Throws
// InternalError for one that no earlier layer gives.
std::vector<LayerOutput> from_earlier_layers(const Stage& stage, int layer);

// The labels of the layers of such stages, each once, in order of emission.
std::vector<std::string> labels(const Model& model,
                                const std::function<bool(const Stage&)>& of = &Stage::is_scan);

// Checks that inputs and outputs fit, drops kinds that no layer has, and marks in each program
// which inputs need a gradient: those that something trainable feeds. Layers of a scan get kinds of
// their own where that differs from other layers of their kind, as before the first layer that
// trains anything.
void connect(Model& model);

// Trains the parameters that `trains` says, by saved_names, and freezes all others; of one that is
// several tensors there, those. Layers of a scan that do not train the same weights get kinds of
// their own. Connects the model.
void set_trainable(Model& model, const std::function<bool(const std::string&)>& trains);

// The model with only `layers` layers of its main stage: those in a row of which most train
// something, the first of several such rows. What they give to later layers is read, and what they
// read of earlier ones given, within the row; a scan without such a row stays whole. Outputs that
// were for the layers left out are left out.
Model truncated(Model model, int layers);

struct ParameterCount {
  int64_t all = 0;
  int64_t trainable = 0;
};

// Elements of the parameters, each counted once.
ParameterCount count_parameters(const Model& model);

}  // namespace longshore::models
