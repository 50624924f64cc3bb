#include "longshore/models/ir/trace.h"

#include "longshore/base/error.h"

namespace longshore::models {

const Type& Var::type() const { return trace->program()[id].type; }

Var Trace::input(std::string_view name, Type type) {
  return {this, program_.add_input({.name = std::string(name),
                                    .type = type,
                                    .source = Source::input,
                                    .needs_gradient = type.dtype != Dtype::int32})};
}

Var Trace::earlier_layer(std::string_view name, Type type) {
  return {this, program_.add_input({.name = std::string(name),
                                    .type = type,
                                    .source = Source::earlier_layer,
                                    .needs_gradient = type.dtype != Dtype::int32})};
}

Var Trace::weight(std::string_view name, Type type, Weight weight) {
  return {this, program_.add_input({.name = std::string(name),
                                    .type = type,
                                    .source = Source::weight,
                                    .needs_gradient = weight.trainable == Trainable::yes,
                                    .weight = weight})};
}

Var Trace::batch(std::string_view name, Type type, Padding padding) {
  return {
      this,
      program_.add_input(
          {.name = std::string(name), .type = type, .source = Source::batch, .padding = padding})};
}

Var Trace::scalar(std::string_view name, Dtype dtype) {
  return {this, program_.add_input(
                    {.name = std::string(name), .type = {{}, dtype}, .source = Source::scalar})};
}

Var Trace::state(std::string_view name, Type type) {
  return {this,
          program_.add_input({.name = std::string(name), .type = type, .source = Source::state})};
}

Var Trace::label(Var value, std::string_view label) {
  Value& named = program_[value.id];
  if (!named.label.empty())
    throw InternalError(program_.name + ": " + named.name + " already has the label " +
                        named.label);
  named.label = label;
  if (named.source == Source::node) named.name = program_.unique_name(label);
  return value;
}

void Trace::output(Var value, OutputRole role) { program_.outputs.push_back({value.id, role}); }

void Trace::give_later_layers(Var value, std::string_view name) {
  program_.outputs.push_back({value.id, OutputRole::later_layers, std::string(name)});
}

std::vector<Var> Trace::emit(const Op& op, std::any attrs, const std::vector<Var>& in) {
  std::vector<ValueId> ids;
  for (Var var : in) {
    if (var.trace != this)
      throw InternalError(program_.name + ": " + op.name + " is given a value of another program");
    ids.push_back(var.id);
  }
  std::vector<Var> out;
  for (ValueId id : program_.add_node(op, std::move(attrs), std::move(ids), op.name))
    out.push_back({this, id});
  return out;
}

Program Trace::finish() {
  verify(program_);
  return std::move(program_);
}

}  // namespace longshore::models
