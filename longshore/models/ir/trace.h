// A Trace writes a program down as model code calls op functions on Vars, as if computing.
#pragma once

#include <string>
#include <string_view>

#include "longshore/models/ir/program.h"

namespace longshore::models {

class Trace;

// A value of the program being traced.
struct Var {
  Trace* trace = nullptr;
  ValueId id;

  const Type& type() const;
};

class Trace {
 public:
  explicit Trace(std::string name) { program_.name = std::move(name); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // The first input of a scanned program is its carry.
  Var input(std::string_view name, Type type);
  Var weight(std::string_view name, Type type, Weight weight);
  // What the latest of the scan's earlier layers that gives something of that name gave. It stays
  // on the device until that layer's backward pass.
  Var earlier_layer(std::string_view name, Type type);
  // [B, ...]: of the B rows of a micro-batch.
  Var batch(std::string_view name, Type type, Padding padding = {});
  Var scalar(std::string_view name, Dtype dtype = Dtype::float32);
  // Has an output of OutputRole::state.
  Var state(std::string_view name, Type type);

  // Names the value and makes it known to policies under that name.
  Var label(Var value, std::string_view label);
  void output(Var value, OutputRole role = OutputRole::value);
  void give_later_layers(Var value, std::string_view name);

  std::vector<Var> emit(const Op& op, std::any attrs, const std::vector<Var>& in);
  const Program& program() const { return program_; }

  // Verified. The trace must not be used afterwards.
  Program finish();

 private:
  Program program_;
};

}  // namespace longshore::models
