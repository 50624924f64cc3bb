#include "longshore/offload/execution/function.h"

#include <algorithm>
#include <set>

#include "longshore/base/error.h"
#include "longshore/models/ir/put.h"
#include "longshore/offload/execution/executor.h"

namespace longshore::offload {

using models::Node;
using models::Program;
using models::ValueId;

namespace {

Placement nth(const std::vector<Placement>& placements, size_t i) {
  return i < placements.size() ? placements[i] : Placement{};
}

void check_function(const Program& program, const FunctionOptions& options) {
  if (options.inputs.size() > program.inputs.size() ||
      options.outputs.size() > program.outputs.size())
    throw UsageError(program.name + ": more placements than inputs or outputs");
  for (int input : options.donated)
    if (input < 0 || input >= std::ssize(program.inputs))
      throw UsageError(program.name + ": input " + std::to_string(input) +
                       " is donated, but there are " + std::to_string(program.inputs.size()));
}

// The value and the results of `put` on it, which may have the same memory.
std::set<ValueId> with_aliases(const Program& program, ValueId value) {
  std::set<ValueId> aliases{value};
  for (const Node& node : program.nodes)
    if (node.op == &models::put_op && aliases.contains(node.in[0])) aliases.insert(node.out[0]);
  return aliases;
}

}  // namespace

// The first donated input of the output's type and placement that no node reads after the one that
// makes the output. If that node reads the input itself, it has to be able to write over it.
int Function::donated_input(const Program& program, const models::Output& output,
                            const Placement& placement, const FunctionOptions& options) const {
  int producer = program[output.value].producer;
  if (program[output.value].source != models::Source::node) return -1;
  const Node& maker = program.nodes[producer];
  int out = static_cast<int>(std::find(maker.out.begin(), maker.out.end(), output.value) -
                             maker.out.begin());
  for (int input : options.donated) {
    ValueId id = program.inputs[input];
    bool is_taken = std::any_of(results_.begin(), results_.end(),
                                [&](const Result& result) { return result.input == input; });
    if (is_taken || program[id].type != program[output.value].type ||
        input_placements_[input] != placement)
      continue;
    const std::set<ValueId> aliases = with_aliases(program, id);
    auto reads = [&](const Node& node) {
      return std::ranges::count_if(node.in, [&](ValueId in) { return aliases.contains(in); });
    };
    bool read_later =
        std::ranges::any_of(program.nodes.begin() + producer + 1, program.nodes.end(), reads);
    for (const models::Output& other : program.outputs) read_later |= aliases.contains(other.value);
    int64_t uses = reads(maker);
    bool in_place = uses == 0;
    if (uses == 1)
      for (models::Reuse reuse : maker.op->in_place(maker.attrs, static_cast<int>(maker.in.size())))
        in_place |= reuse.out == out && maker.in[reuse.in] == id;
    if (!read_later && in_place) return input;
  }
  return -1;
}

Function::Function(Runtime& runtime, const Program& program, const FunctionOptions& options)
    : runtime_(runtime) {
  check_function(program, options);
  PlanBuilder builder(program.name, runtime.backend->target());
  PlanBuilder::Bindings bindings(program.values.size());
  auto argument = [&](const std::string& name, const models::Type& type,
                      const Placement& placement) {
    check(placement, type.shape.rank());
    if (placement.kind == MemoryKind::unpinned_host)
      throw UsageError(program.name + ": " + name + " is to be in " + text(placement) +
                       "; expected device or pinned_host");
    return Operand{builder.argument(name, type.bytes(), placement.kind, Category::batch), 0, type};
  };
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const models::Value& value = program[program.inputs[i]];
    input_types_.push_back(value.type);
    input_placements_.push_back(nth(options.inputs, i));
    bindings[program.inputs[i].index] =
        argument("input." + value.name, value.type, input_placements_.back());
    input_buffers_.push_back(bindings[program.inputs[i].index].buffer);
  }

  // Outputs on the device are made in place where a node makes them; the others are moved
  // afterwards.
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    const models::Output& output = program.outputs[o];
    Result result{program[output.value].type, nth(options.outputs, o)};
    Operand& bound = bindings[output.value.index];
    result.input = donated_input(program, output, result.placement, options);
    if (result.input >= 0)
      result.buffer = input_buffers_[result.input];
    else
      result.buffer = argument("output." + std::to_string(o), result.type, result.placement).buffer;
    if (!bound && result.placement.kind == MemoryKind::device)
      bound = {result.buffer, 0, result.type};
    results_.push_back(result);
  }
  builder.run(program, bindings, {.stage = program.name});
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    const Operand& made = bindings[program.outputs[o].value.index];
    Operand wanted{results_[o].buffer, 0, results_[o].type};
    if (made.buffer == wanted.buffer) continue;
    builder.move(made, wanted, {.stage = program.name});
  }
  plan_ = builder.finish(options.transfers);
  arenas_ = std::make_unique<Arenas>(*runtime.backend, std::vector<const Plan*>{&plan_});
}

std::vector<Tensor> Function::operator()(const std::vector<Tensor>& inputs) {
  if (inputs.size() != input_types_.size())
    throw UsageError(plan_.name + ": expected " + std::to_string(input_types_.size()) +
                     " inputs, found " + std::to_string(inputs.size()));
  std::vector<std::byte*> address(plan_.buffers.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].type() != input_types_[i] || inputs[i].placement() != input_placements_[i])
      throw UsageError(plan_.name + ": input " + std::to_string(i) + ": expected " +
                       models::text(input_types_[i]) + " in " + text(input_placements_[i]) +
                       ", found " + models::text(inputs[i].type()) + " in " +
                       text(inputs[i].placement()));
    address[input_buffers_[i]] = inputs[i].memory();
  }
  for (const Result& result : results_)
    for (size_t i = 0; i < inputs.size(); ++i)
      if (result.input >= 0 && static_cast<int>(i) != result.input &&
          inputs[i].memory() == inputs[result.input].memory())
        throw UsageError(plan_.name + ": input " + std::to_string(i) + " is also input " +
                         std::to_string(result.input) +
                         ", which is donated: an output takes its memory");
  std::vector<Tensor> outputs;
  for (const Result& result : results_) {
    outputs.push_back(result.input >= 0 ? inputs[result.input]
                                        : Tensor(runtime_, result.type, result.placement));
    address[result.buffer] = outputs.back().memory();
  }
  Executable executable(
      plan_, *runtime_.backend,
      [&](const Buffer& buffer) { return address[&buffer - plan_.buffers.data()]; }, *arenas_);
  executable.run(runtime_.ledger);
  runtime_.backend->synchronize();
  return outputs;
}

}  // namespace longshore::offload
