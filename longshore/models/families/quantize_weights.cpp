#include "longshore/models/families/quantize_weights.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/models/ops/dequantize/dequantize.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/quantized_linear/quantized_linear.h"

namespace longshore::models {
namespace {

QuantizedWeight quantized(const Value& value, const Quantization& how) {
  const auto& [shape, dtype] = value.type;
  const Weight& weight = *value.weight;
  const bool is_transposed = weight.inputs == InputAxis::before_last;
  const int64_t last = shape.back(), before_last = shape[shape.rank() - 2];
  QuantizedMatrix matrix{.format = how.format,
                         .rows = is_transposed ? last : before_last,
                         .columns = is_transposed ? before_last : last,
                         .rounded_to = how.rounded_to,
                         .block = how.block,
                         .has_nested_scales = how.has_nested_scales};
  // Rows of a fused matrix are stored with scales of that.
  if (weight.saved_section && shape.rank() == 2) matrix.first_row = weight.saved_section->first;
  return {.matrix = matrix, .numbers = value.type, .is_transposed = is_transposed};
}

// By the weights' places among the program's inputs.
using Chosen = std::map<ValueId, Quantization>;

// A linear layer of one row, through which there is no gradient.
bool is_of_one_row(const Program& program, const Node& node, ValueId weight) {
  return node.op == &linear_op && node.in[1] == weight && node.in[0] != weight &&
         !program[node.out[0]].needs_gradient &&
         serves_quantized_linear(program[node.in[0]].type, *program[weight].weight->quantized);
}

// Each node that reads such a weight reads the numbers that a node before it gives; a linear layer
// of one row reads the codes themselves.
Program with_quantized(Program program, const Chosen& chosen) {
  for (const auto& [id, how] : chosen) {
    Value& value = program[id];
    value.weight->quantized = quantized(value, how);
    value.type = quantized_type(*value.weight->quantized);
  }
  std::vector<Node> nodes = std::move(program.nodes);
  program.nodes.clear();
  for (Node& node : nodes) {
    for (ValueId& in : node.in)
      if (chosen.contains(in) && is_of_one_row(program, node, in)) {
        node.attrs = *program[in].weight->quantized;
        node.op = &quantized_linear_op;
      } else if (chosen.contains(in)) {
        const std::string name = program.unique_name(program[in].name + ".numbers");
        in = program.add_node(dequantize_op, *program[in].weight->quantized, {in}, name)[0];
      }
    for (ValueId out : node.out) program[out].producer = static_cast<int32_t>(program.nodes.size());
    program.nodes.push_back(std::move(node));
  }
  return program;
}

}  // namespace

Quantization quantization_of(const QuantizedMatrix& matrix) {
  return {.format = matrix.format,
          .rounded_to = matrix.rounded_to,
          .block = matrix.block,
          .has_nested_scales = matrix.has_nested_scales};
}

ChooseQuantization as_stored(const Quantizations& stored) {
  return [&stored](const std::string& tensor) {
    const auto found = stored.find(tensor);
    return found == stored.end() ? std::nullopt : std::optional(found->second);
  };
}

void quantize_weights(Model& model, const ChooseQuantization& choose) {
  auto chosen_for = [&](const Stage& stage, int layer) {
    Chosen chosen;
    const Program& program = stage.program(layer);
    for (ValueId id : program.inputs_from(Source::weight)) {
      const Value& value = program[id];
      if (value.weight->inputs == InputAxis::none || value.weight->trainable == Trainable::yes)
        continue;
      const std::vector<std::string> names = saved_names(stage, layer, value);
      const std::optional<Quantization> how = choose(names[0]);
      for (const std::string& name : names)
        if (choose(name) != how)
          throw ConfigError(name + " is not stored as " + names[0] + ", expected all alike");
      if (how) chosen[id] = *how;
    }
    return chosen;
  };
  for (Stage& stage : model.stages) {
    std::vector<Program> programs;
    std::vector<std::pair<int, Chosen>> kinds;  // what each is made of
    std::vector<int> layers;
    for (int layer = 0; layer < std::ssize(stage.layers); ++layer) {
      std::pair kind(stage.layers[layer], chosen_for(stage, layer));
      const auto known = std::ranges::find(kinds, kind);
      layers.push_back(static_cast<int>(known - kinds.begin()));
      if (known != kinds.end()) continue;
      programs.push_back(with_quantized(stage.program(layer), kind.second));
      verify(programs.back());
      kinds.push_back(std::move(kind));
    }
    stage.programs = std::move(programs);
    stage.layers = std::move(layers);
  }
  connect(model);
}

}  // namespace longshore::models
