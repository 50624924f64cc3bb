#include "longshore/models/ir/program.h"

#include <algorithm>
#include <set>

#include "longshore/base/error.h"

namespace longshore::models {

Types Program::types(std::span<const ValueId> ids) const {
  Types types;
  for (ValueId id : ids) types.push_back((*this)[id].type);
  return types;
}

Cost Program::cost(const Node& node) const {
  return node.op->cost(node.attrs, types(node.in), types(node.out));
}

std::vector<ValueId> Program::inputs_from(Source source) const {
  std::vector<ValueId> found;
  for (ValueId id : inputs)
    if ((*this)[id].source == source) found.push_back(id);
  return found;
}

void Program::drop_nodes_but_for(std::span<const ValueId> needed) {
  std::vector<char> live(values.size());
  for (ValueId id : needed) live[id.index] = true;
  auto is_live = [&](const Node& node) {
    return std::any_of(node.out.begin(), node.out.end(),
                       [&](ValueId id) { return live[id.index]; });
  };
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    if (is_live(*node))
      for (ValueId id : node->in) live[id.index] = true;
  std::erase_if(nodes, [&](const Node& node) { return !is_live(node); });
  for (size_t i = 0; i < nodes.size(); ++i)
    for (ValueId id : nodes[i].out) (*this)[id].producer = static_cast<int32_t>(i);
}

std::vector<std::string> Program::labels() const {
  std::vector<std::string> labels;
  for (const Value& value : values)
    if (!value.label.empty()) labels.push_back(value.label);
  return labels;
}

ValueId Program::find(std::string_view name) const {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].name == name) return {static_cast<int32_t>(i)};
  return {};
}

namespace {

std::string output_name(const std::string& node, size_t output) {
  return output == 0 ? node : node + "." + std::to_string(output);
}

}  // namespace

std::string Program::unique_name(std::string_view stem, size_t outputs) const {
  std::string name(stem);
  auto is_taken = [&] {
    for (size_t i = 0; i < outputs; ++i)
      if (find(output_name(name, i))) return true;
    return false;
  };
  for (int suffix = 2; is_taken(); ++suffix)
    name = std::string(stem) + "_" + std::to_string(suffix);
  return name;
}

ValueId Program::add_input(Value value) {
  if (find(value.name)) throw InternalError(this->name + ": two inputs named '" + value.name + "'");
  ValueId id{static_cast<int32_t>(values.size())};
  values.push_back(std::move(value));
  inputs.push_back(id);
  return id;
}

std::vector<ValueId> Program::add_node(const Op& op, std::any attrs, std::vector<ValueId> in,
                                       const std::string& stem) {
  for (ValueId id : in)
    if (!id) throw InternalError(name + ": " + op.name + " is given no value as an input");
  Types out_types = op.infer(attrs, types(in));
  if (op.sum_input >= 0 && std::ssize(in) == op.sum_input + 1 &&
      (*this)[in.back()].type != out_types[0])
    throw InternalError(name + ": " + op.name + " adds " + text(out_types[0]) + " to a sum of " +
                        text((*this)[in.back()].type));
  bool needs_gradient =
      std::any_of(in.begin(), in.end(), [&](ValueId id) { return (*this)[id].needs_gradient; });
  const std::string first = unique_name(stem, out_types.size());
  Node node{&op, std::move(attrs), std::move(in), {}};
  for (size_t i = 0; i < out_types.size(); ++i) {
    node.out.push_back({static_cast<int32_t>(values.size())});
    values.push_back({.name = output_name(first, i),
                      .type = out_types[i],
                      .source = Source::node,
                      .needs_gradient = needs_gradient,
                      .producer = static_cast<int32_t>(nodes.size())});
  }
  nodes.push_back(std::move(node));
  return nodes.back().out;
}

namespace {

bool exists(const Program& program, ValueId id) {
  return id && id.index < std::ssize(program.values);
}

// Faulty programs are printed too.
std::string name_of(const Program& program, ValueId id) {
  return exists(program, id) ? program[id].name : "?";
}

}  // namespace

std::string text(const Program& program, const Node& node) {
  std::string line;
  for (ValueId id : node.out) line += (line.empty() ? "" : ", ") + name_of(program, id);
  line += " = " + std::string(node.op->name) + "(";
  for (size_t i = 0; i < node.in.size(); ++i)
    line += (i ? ", " : "") + name_of(program, node.in[i]);
  line += ")";
  std::string attrs = node.op->print ? node.op->print(node.attrs) : "";
  if (!attrs.empty()) line += " {" + attrs + "}";
  line += " : ";
  for (size_t i = 0; i < node.out.size(); ++i)
    line +=
        (i ? ", " : "") + (exists(program, node.out[i]) ? text(program[node.out[i]].type) : "?");
  if (node.out.empty() || !exists(program, node.out[0])) return line;
  const Value& first = program[node.out[0]];
  if (!first.label.empty() && first.label != first.name) line += "  label " + first.label;
  return line;
}

std::string text(const Program& program) {
  static constexpr const char* kSources[] = {"node",   "input",     "earlier_layer",
                                             "weight", "batch",     "scalar",
                                             "state",  "cotangent", "accumulator"};
  std::string result = "program " + program.name + "\n";
  for (ValueId id : program.inputs) {
    const Value& value = program[id];
    result += std::string("  ") + kSources[static_cast<int>(value.source)] + " " + value.name +
              ": " + text(value.type);
    if (value.weight && value.weight->trainable == Trainable::no) result += " frozen";
    if (value.weight && value.weight->split) result += " " + text(*value.weight->split);
    result += "\n";
  }
  for (const Node& node : program.nodes) result += "  " + text(program, node) + "\n";
  result += "  return";
  for (const Output& output : program.outputs)
    result += " " + name_of(program, output.value) +
              (output.name.empty() ? "" : " (to later layers as " + output.name + ")");
  return result + "\n";
}

namespace {

[[noreturn]] void fault(const Program& program, int node, const std::string& what) {
  std::string around;
  for (int i = std::max(0, node - 3); i < std::min<int>(program.nodes.size(), node + 2); ++i)
    around += (i == node ? "\n> " : "\n  ") + text(program, program.nodes[i]);
  throw InternalError(program.name + ": " + what + around);
}

}  // namespace

void verify(const Program& program) {
  std::vector<char> made(program.values.size());
  for (ValueId id : program.inputs) {
    if (!exists(program, id)) throw InternalError(program.name + ": an input is no value");
    made[id.index] = true;
  }
  std::set<std::string> labels, names;
  for (const Value& value : program.values) {
    if (!names.insert(value.name).second)
      throw InternalError(program.name + ": two values are named '" + value.name + "'");
    if (!value.label.empty() && !labels.insert(value.label).second)
      throw InternalError(program.name + ": two values carry the label '" + value.label + "'");
  }
  for (int i = 0; i < static_cast<int>(program.nodes.size()); ++i) {
    const Node& node = program.nodes[i];
    for (ValueId id : node.in)
      if (!exists(program, id) || !made[id.index])
        fault(program, i, "a value is read before it is made");
    for (ValueId id : node.out)
      if (!exists(program, id)) fault(program, i, "an output is no value");
    if (node.op->infer(node.attrs, program.types(node.in)) != program.types(node.out))
      fault(program, i, "the outputs' types are not what the op's shape rule gives");
    for (ValueId id : node.out) {
      if (made[id.index]) fault(program, i, "a value is made twice");
      made[id.index] = true;
    }
  }
  std::set<std::string> given;
  for (const Output& output : program.outputs) {
    if (!exists(program, output.value) || !made[output.value.index])
      throw InternalError(program.name + ": output " + name_of(program, output.value) +
                          " is never made");
    if (output.name.empty() != (output.role != OutputRole::later_layers) ||
        (!output.name.empty() && !given.insert(output.name).second))
      throw InternalError(program.name + ": output " + name_of(program, output.value) +
                          " has the name '" + output.name +
                          "'; outputs to later layers have one each, others none");
  }
  Types states_in = program.types(program.inputs_from(Source::state)), states_out;
  for (const Output& output : program.outputs)
    if (output.role == OutputRole::state) states_out.push_back(program[output.value].type);
  if (states_in != states_out)
    throw InternalError(program.name + ": the states that leave are not those that enter");
}

}  // namespace longshore::models
