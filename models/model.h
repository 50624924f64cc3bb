// A model: a small DAG of stages. A stage runs once, or scans: it runs one program for each layer,
// the carry (input 0, output 0) going from layer to layer. Nothing else leaves a scan but losses.
//
// Parameters are known by their full names (Hugging Face's): the stage's prefix, with the layer's
// number in place of "{}", and the weight's name in the program. The same full name in two stages
// is one parameter (tied embeddings); the first stage that names it owns it.
#pragma once

#include <string>
#include <vector>

#include "models/program.h"

namespace longshore::models {

// An output of an earlier stage.
struct StageOutput {
  int stage = 0;
  int output = 0;
};

struct Stage {
  std::string name;
  std::string weight_prefix;        // "model.layers.{}." in a scan
  std::vector<Program> programs;    // the kinds of layer there are, forward
  std::vector<int> layers;          // for each layer its kind; {0} for a stage that runs once
  std::vector<StageOutput> inputs;  // what feeds each Source::input of the programs, in order

  bool is_scan() const { return weight_prefix.find("{}") != std::string::npos; }
};

struct Model {
  std::string name;
  std::vector<Stage> stages;  // each reads earlier ones only
};

std::string weight_name(const Stage& stage, int layer, const Value& weight);

// Checks that inputs and outputs fit, and marks in each program which inputs need a gradient: those
// that something trainable feeds. The first layer of a scan gets a kind of its own where its carry
// needs none but later layers' carries do.
void connect(Model& model);

// add(a, b) as a program with values 0, 1 and 2: how plans sum what layers and micro-batches give.
Program addition(const Type& type);

// Trainable and frozen parameters, each counted once.
int64_t parameter_count(const Model& model);

}  // namespace longshore::models
