#include "longshore/offload/lowering/plan_builder.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/models/ir/add.h"
#include "longshore/models/ir/put.h"
#include "longshore/offload/memory/alignment.h"
#include "longshore/offload/plan/place_buffers.h"
#include "longshore/offload/plan/waits.h"

namespace longshore::offload {

using models::Node;
using models::Program;
using models::Type;
using models::ValueId;

PlanBuilder::PlanBuilder(std::string name, models::Target target) {
  plan_.name = std::move(name);
  plan_.target = target;
}

int PlanBuilder::argument(const std::string& name, int64_t bytes, MemoryKind kind,
                          Category category) {
  auto [entry, is_new] = arguments_.try_emplace(name, static_cast<int>(plan_.buffers.size()));
  if (is_new)
    plan_.buffers.push_back({name, bytes, kind, category, Owner::caller});
  else if (plan_.buffers[entry->second].bytes != bytes)
    throw InternalError(plan_.name + ": argument " + name + " has " + std::to_string(bytes) +
                        " bytes here and " + std::to_string(plan_.buffers[entry->second].bytes) +
                        " elsewhere");
  return entry->second;
}

Operand PlanBuilder::argument(const std::string& name, const models::Type& type, MemoryKind kind,
                              Category category) {
  return {argument(name, type.bytes(), kind, category), 0, type};
}

Operand PlanBuilder::argument_part(const std::string& name, const models::Type& type, int64_t part,
                                   int64_t count, MemoryKind kind, Category category) {
  const int64_t stride = align_up(type.bytes());
  const int buffer = argument(name, (count - 1) * stride + type.bytes(), kind, category);
  plan_.buffers[buffer].run_stride = stride;
  return {buffer, part * stride, type};
}

int PlanBuilder::temporary(const std::string& name, int64_t bytes, MemoryKind kind,
                           Category category) {
  plan_.buffers.push_back({name, bytes, kind, category, Owner::plan});
  return static_cast<int>(plan_.buffers.size()) - 1;
}

Operand PlanBuilder::temporary(const std::string& name, const Type& type, MemoryKind kind,
                               Category category) {
  return {temporary(name, type.bytes(), kind, category), 0, type};
}

int PlanBuilder::persistent(const std::string& name, int64_t bytes, MemoryKind kind,
                            Category category, const Plan* from) {
  int buffer = temporary(name, bytes, kind, category);
  plan_.buffers[buffer].is_persistent = true;
  if (!from) return buffer;
  auto left = std::find_if(from->buffers.begin(), from->buffers.end(), [&](const Buffer& b) {
    return b.is_persistent && b.name == name && b.bytes == bytes && b.kind == kind;
  });
  if (left == from->buffers.end())
    throw InternalError(plan_.name + ": " + from->name + " leaves no " + name);
  fixed_[buffer] = left->offset;
  return buffer;
}

void PlanBuilder::set_category(const Operand& operand, Category category) {
  Buffer& buffer = plan_.buffers[operand.buffer];
  if (buffer.owner == Owner::plan && buffer.category == Category::temporaries)
    buffer.category = category;
}

void PlanBuilder::rename(const Operand& operand, const std::string& name) {
  Buffer& buffer = plan_.buffers[operand.buffer];
  if (buffer.owner == Owner::plan) buffer.name = name;
}

Operand PlanBuilder::staged(const Operand& host, const std::string& name) {
  if (plan_.buffers[host.buffer].kind != MemoryKind::pinned_host)
    throw InternalError(plan_.name + ": " + name +
                        ": a staged range on what is not in pinned_host");
  Operand range = temporary(name, host.type, MemoryKind::device, Category::staging);
  staged_.push_back({range.buffer, host.type, host, std::nullopt});
  return range;
}

Operand PlanBuilder::gathered(const Operand& shard, const Type& type, const Collective& among,
                              const std::string& name) {
  Operand range = temporary(name, type, MemoryKind::device, Category::staging);
  staged_.push_back({range.buffer, type, shard, among});
  return range;
}

Operand PlanBuilder::offload(const Operand& value, const Scope& scope) {
  const std::string name = plan_.buffers[value.buffer].name;
  Operand host = temporary(name, value.type, MemoryKind::pinned_host, Category::kept);
  move(Lane::device_to_host, value, host, scope);
  return staged(host, name);
}

void PlanBuilder::run(const Program& program, Bindings& bindings, const Scope& scope, Lane lane,
                      const AfterNode& after) {
  bool on_host = lane == Lane::host_compute;
  MemoryKind kind = on_host ? MemoryKind::pinned_host : MemoryKind::device;
  bindings.resize(program.values.size());
  for (const Node& node : program.nodes) {
    for (ValueId id : node.in)
      if (!bindings[id.index])
        throw InternalError(plan_.name + ": " + program.name + ": nothing is bound to " +
                            program[id].name);
    if (node.op == &models::put_op || models::is_collective(*node.op)) {
      if (node.op == &models::put_op)
        run_put(program, node, bindings, scope);
      else
        run_collective(program, node, bindings, scope);
      if (after) after(node);
      continue;
    }
    Instruction instruction{.lane = lane,
                            .op = node.op,
                            .attrs = node.attrs,
                            .scope = scope,
                            .recomputes = node.recomputes};
    for (ValueId id : node.in) instruction.in.push_back(bindings[id.index]);
    for (ValueId id : node.out) {
      Operand& operand = bindings[id.index];
      if (!operand)
        operand = temporary(program[id].name, program[id].type, kind, Category::temporaries);
      else if (operand.type != program[id].type)
        throw InternalError(plan_.name + ": " + program[id].name + " is " +
                            models::text(program[id].type) + ", its place " +
                            models::text(operand.type));
      instruction.out.push_back(operand);
    }
    instruction.name = program[node.out[0]].name;
    check_kinds(instruction, node, kind);
    const models::Target target = on_host ? models::host_target(plan_.target) : plan_.target;
    const models::Kernel& kernel = node.op->kernel(target);
    if (!node.op->has_kernel(target))
      throw InternalError(plan_.name + ": " + node.op->name + " has no kernel for this target");
    if (kernel.workspace_bytes) {
      int64_t bytes =
          kernel.workspace_bytes(node.attrs, program.types(node.in), program.types(node.out));
      if (bytes > 0) {
        int buffer = temporary(instruction.name + ".workspace", bytes, kind, Category::workspace);
        instruction.workspace = {buffer, 0, {}};
      }
    }
    plan_.instructions.push_back(std::move(instruction));
    if (after) after(node);
  }
}

void PlanBuilder::run_put(const Program& program, const Node& node, Bindings& bindings,
                          const Scope& scope) {
  MemoryKind kind = std::any_cast<MemoryKind>(node.attrs);
  const Operand from = bindings[node.in[0].index];
  Operand& to = bindings[node.out[0].index];
  MemoryKind from_kind = plan_.buffers[from.buffer].kind;
  const std::string& name = program[node.out[0]].name;
  if (!to && kind == from_kind) {
    to = from;
  } else if (!to && kind == MemoryKind::device) {
    to = staged(from, name);
  } else {
    if (!to) to = temporary(name, program[node.out[0]].type, kind, Category::temporaries);
    move(from, to, scope);
  }
}

void PlanBuilder::run_collective(const Program& program, const Node& node, Bindings& bindings,
                                 const Scope& scope) {
  const auto& among = std::any_cast<const Collective&>(node.attrs);
  const Operand from = bindings[node.in[0].index];
  Operand& to = bindings[node.out[0].index];
  if (among.ranks == 1 && !to) {
    to = from;
    return;
  }
  const models::Value& value = program[node.out[0]];
  if (!to) to = temporary(value.name, value.type, MemoryKind::device, Category::temporaries);
  if (among.ranks == 1) return move(from, to, scope);
  collective(*node.op, among, from, to, scope);
  Instruction& instruction = plan_.instructions.back();
  instruction.recomputes = node.recomputes;
  check_kinds(instruction, node, MemoryKind::device);
}

void PlanBuilder::check_kinds(const Instruction& instruction, const Node& node, MemoryKind kind) {
  for (const std::vector<Operand>* operands : {&instruction.in, &instruction.out})
    for (const Operand& operand : *operands)
      if (const Buffer& buffer = plan_.buffers[operand.buffer]; buffer.kind != kind)
        throw UsageError(plan_.name + ": " + node.op->name + " works in " + name(kind) + ", but " +
                         buffer.name + " lies in " + name(buffer.kind) +
                         ". Nothing moves by itself: put it into " + name(kind));
}

void PlanBuilder::move(const Operand& from, const Operand& to, const Scope& scope) {
  bool from_device = plan_.buffers[from.buffer].kind == MemoryKind::device;
  bool to_device = plan_.buffers[to.buffer].kind == MemoryKind::device;
  move(!to_device    ? Lane::device_to_host
       : from_device ? Lane::compute
                     : Lane::host_to_device,
       from, to, scope);
}

void PlanBuilder::add(const Operand& sum, const Operand& part, const Scope& scope) {
  const models::Program addition = models::addition(sum.type);
  Bindings operands{sum, part, sum};
  run(addition, operands, scope);
}

void PlanBuilder::move(Lane lane, const Operand& from, const Operand& to, const Scope& scope) {
  if (from.type != to.type) throw InternalError(plan_.name + ": a move between different types");
  plan_.instructions.push_back({.lane = lane,
                                .in = {from},
                                .out = {to},
                                .name = plan_.buffers[to.buffer].name,
                                .scope = scope});
}

void PlanBuilder::collective(const models::Op& op, const Collective& among, const Operand& from,
                             const Operand& to, const Scope& scope) {
  if (op.infer(among, std::array{from.type})[0] != to.type)
    throw InternalError(plan_.name + ": " + op.name + " of " + text(from.type) + " does not give " +
                        text(to.type));
  plan_.instructions.push_back({.lane = Lane::network,
                                .op = &op,
                                .attrs = among,
                                .in = {from},
                                .out = {to},
                                .name = plan_.buffers[to.buffer].name,
                                .scope = scope});
}

void PlanBuilder::keep_alive(const Operand& operand) {
  keep_alives_.push_back({operand.buffer, static_cast<int>(plan_.instructions.size()) - 1});
}

Plan PlanBuilder::finish(const Transfers& transfers) {
  const std::vector<KeepAlive> keep_alives =
      insert_staging(plan_, staged_, keep_alives_, transfers);
  place_buffers(plan_, keep_alives, fixed_);
  find_waits(plan_);
  return std::move(plan_);
}

}  // namespace longshore::offload
