#include "offload/plan_builder.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "offload/arena.h"

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

int PlanBuilder::temporary(const std::string& name, int64_t bytes, MemoryKind kind,
                           Category category) {
  plan_.buffers.push_back({name, bytes, kind, category, Owner::plan});
  return static_cast<int>(plan_.buffers.size()) - 1;
}

Operand PlanBuilder::temporary(const std::string& name, const Type& type, MemoryKind kind,
                               Category category) {
  return {temporary(name, type.bytes(), kind, category), 0, type};
}

void PlanBuilder::set_category(const Operand& operand, Category category) {
  Buffer& buffer = plan_.buffers[operand.buffer];
  if (buffer.owner == Owner::plan && buffer.category == Category::working_set)
    buffer.category = category;
}

Operand PlanBuilder::window(const Operand& host, const std::string& name) {
  if (plan_.buffers[host.buffer].kind != MemoryKind::pinned_host)
    throw InternalError(plan_.name + ": " + name + ": a window on what is not in pinned_host");
  Operand window = temporary(name, host.type, MemoryKind::device, Category::staging);
  windows_.push_back({window.buffer, host});
  return window;
}

Operand PlanBuilder::offload(const Operand& value, const Place& place) {
  const std::string name = plan_.buffers[value.buffer].name;
  Operand host = temporary(name, value.type, MemoryKind::pinned_host, Category::kept);
  move(Lane::device_to_host, value, host, place);
  return window(host, name);
}

void PlanBuilder::run(const Program& program, Bindings& bindings, const Place& place, Lane lane,
                      const AfterNode& after) {
  bool on_host = lane == Lane::host_compute;
  MemoryKind kind = on_host ? MemoryKind::pinned_host : MemoryKind::device;
  bindings.resize(program.values.size());
  for (const Node& node : program.nodes) {
    Instruction instruction{.lane = lane, .op = node.op, .attrs = node.attrs, .place = place};
    for (ValueId id : node.in) {
      if (!bindings[id.index])
        throw InternalError(plan_.name + ": " + program.name + ": nothing is bound to " +
                            program[id].name);
      instruction.in.push_back(bindings[id.index]);
    }
    for (ValueId id : node.out) {
      Operand& operand = bindings[id.index];
      if (!operand)
        operand = temporary(program[id].name, program[id].type, kind, Category::working_set);
      else if (operand.type != program[id].type)
        throw InternalError(plan_.name + ": " + program[id].name + " is " +
                            models::text(program[id].type) + ", its place " +
                            models::text(operand.type));
      instruction.out.push_back(operand);
    }
    instruction.name = program[node.out[0]].name;
    check_kinds(instruction, node, kind);
    const models::Kernel& kernel =
        node.op->kernel(on_host ? models::host_target(plan_.target) : plan_.target);
    if (!kernel.run)
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

void PlanBuilder::check_kinds(const Instruction& instruction, const Node& node, MemoryKind kind) {
  for (const std::vector<Operand>* operands : {&instruction.in, &instruction.out})
    for (const Operand& operand : *operands)
      if (const Buffer& buffer = plan_.buffers[operand.buffer]; buffer.kind != kind)
        throw InternalError(plan_.name + ": " + node.op->name + " works in " + name(kind) +
                            ", but " + buffer.name + " lies in " + name(buffer.kind) +
                            "; it must be moved first");
}

void PlanBuilder::move(Lane lane, const Operand& from, const Operand& to, const Place& place) {
  if (from.type != to.type) throw InternalError(plan_.name + ": a move between different types");
  plan_.instructions.push_back({.lane = lane,
                                .in = {from},
                                .out = {to},
                                .name = plan_.buffers[to.buffer].name,
                                .place = place});
}

namespace {

template <class F>
void each_operand(const Instruction& instruction, F f) {
  for (const Operand& operand : instruction.in) f(operand);
  for (const Operand& operand : instruction.out) f(operand);
  if (instruction.workspace) f(instruction.workspace);
}

}  // namespace

void PlanBuilder::find_lifetimes(const std::vector<Hold>& holds) {
  for (size_t i = 0; i < plan_.instructions.size(); ++i)
    each_operand(plan_.instructions[i], [&](const Operand& operand) {
      Buffer& buffer = plan_.buffers[operand.buffer];
      if (buffer.first < 0) buffer.first = static_cast<int>(i);
      buffer.last = static_cast<int>(i);
    });
  for (const Hold& hold : holds) {
    int& last = plan_.buffers[hold.buffer].last;
    last = std::max(last, hold.until);
  }
}

// An output may take the place of an input of the same size that dies at this instruction. Only
// temporaries do, and only those that no other operand of the instruction shares.
void PlanBuilder::reuse_dying_inputs() {
  place_of_.resize(plan_.buffers.size());
  std::iota(place_of_.begin(), place_of_.end(), 0);

  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    const Instruction& instruction = plan_.instructions[i];
    if (!instruction.op || !instruction.op->reuse) continue;
    auto uses = [&](int buffer) {
      int count = 0;
      each_operand(instruction, [&](const Operand& o) { count += o.buffer == buffer; });
      return count;
    };
    int inputs = static_cast<int>(instruction.in.size());
    for (models::Reuse reuse : instruction.op->reuse(instruction.attrs, inputs)) {
      int out = instruction.out[reuse.out].buffer, in = instruction.in[reuse.in].buffer;
      Buffer &made = plan_.buffers[out], &dying = plan_.buffers[in];
      int now = static_cast<int>(i);
      if (made.owner != Owner::plan || dying.owner != Owner::plan || made.kind != dying.kind ||
          made.bytes != dying.bytes || made.first != now || dying.last != now ||
          place_of_[out] != out || uses(out) != 1 || uses(in) != 1)
        continue;
      place_of_[out] = place_of_[in];
      dying.last = now - 1;  // its bytes are the output's from here on
    }
  }
}

void PlanBuilder::place_temporaries() {
  for (MemoryKind kind : kMemoryKinds) {
    std::vector<int> block_of(plan_.buffers.size(), -1);
    std::vector<Block> blocks;
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const Buffer& buffer = plan_.buffers[i];
      if (buffer.owner != Owner::plan || buffer.kind != kind || buffer.first < 0) continue;
      int& block = block_of[place_of_[i]];
      if (block < 0) {
        block = static_cast<int>(blocks.size());
        blocks.push_back({.bytes = buffer.bytes, .first = buffer.first, .last = buffer.last});
      }
      blocks[block].first = std::min(blocks[block].first, buffer.first);
      blocks[block].last = std::max(blocks[block].last, buffer.last);
    }
    plan_.arena_bytes[static_cast<size_t>(kind)] = place(blocks);
    for (size_t i = 0; i < plan_.buffers.size(); ++i)
      if (int block = block_of[place_of_[i]]; block >= 0)
        plan_.buffers[i].offset = blocks[block].offset;
  }
}

// Lanes run on their own, so whoever touches bytes that another lane used before waits for it:
// for what it reads or overwrites in a buffer, and for a buffer's place that was another's.
void PlanBuilder::find_waits() {
  struct Use {
    int instruction;
    bool writes;
    int64_t begin, end;  // bytes of the buffer
  };
  size_t lanes = kLanes.size();
  std::vector<std::vector<Use>> uses(plan_.buffers.size());  // in order of the list
  std::vector<char> several_lanes(plan_.buffers.size());
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    const Instruction& instruction = plan_.instructions[i];
    auto note = [&](const Operand& operand, bool writes) {
      uses[operand.buffer].push_back(
          {static_cast<int>(i), writes, operand.offset, operand.offset + operand.type.bytes()});
      if (instruction.lane != Lane::compute) several_lanes[operand.buffer] = true;
    };
    for (const Operand& operand : instruction.in) note(operand, false);
    for (const Operand& operand : instruction.out) note(operand, true);
    if (instruction.workspace) note(instruction.workspace, true);
  }
  auto conflict = [](const Use& a, const Use& b) {
    return (a.writes || b.writes) && a.begin < b.end && b.begin < a.end;
  };

  std::vector<std::vector<int>> wanted(plan_.instructions.size());
  auto want = [&](int later, int earlier) {
    if (plan_.instructions[later].lane != plan_.instructions[earlier].lane)
      wanted[later].push_back(earlier);
  };
  for (size_t b = 0; b < plan_.buffers.size(); ++b) {
    if (!several_lanes[b]) continue;
    for (size_t later = 0; later < uses[b].size(); ++later)
      for (size_t earlier = 0; earlier < later; ++earlier)
        if (conflict(uses[b][later], uses[b][earlier]))
          want(uses[b][later].instruction, uses[b][earlier].instruction);
    // A place that changes hands.
    const Buffer& buffer = plan_.buffers[b];
    if (buffer.owner != Owner::plan) continue;
    for (size_t other = 0; other < plan_.buffers.size(); ++other) {
      const Buffer& o = plan_.buffers[other];
      if (other == b || o.owner != Owner::plan || o.kind != buffer.kind || o.first < 0 ||
          o.offset >= buffer.offset + buffer.bytes || buffer.offset >= o.offset + o.bytes)
        continue;
      size_t before = o.last < buffer.first ? other : b, after = before == b ? other : b;
      for (const Use& use : uses[before]) want(plan_.buffers[after].first, use.instruction);
    }
  }

  // Lanes keep their order, so the latest of a lane covers the earlier ones, also those that an
  // earlier instruction of this lane has waited for.
  std::vector<std::vector<int>> covered(lanes, std::vector<int>(lanes, -1));
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    Instruction& instruction = plan_.instructions[i];
    std::vector<int>& seen = covered[static_cast<size_t>(instruction.lane)];
    std::sort(wanted[i].rbegin(), wanted[i].rend());
    for (int earlier : wanted[i]) {
      int& last = seen[static_cast<size_t>(plan_.instructions[earlier].lane)];
      if (earlier <= last) continue;
      last = earlier;
      instruction.waits.push_back(earlier);
      plan_.instructions[earlier].awaited = true;
    }
  }
}

Plan PlanBuilder::finish(const Transfers& transfers) {
  find_lifetimes(open_windows(plan_, windows_, transfers));
  reuse_dying_inputs();
  place_temporaries();
  find_waits();
  return std::move(plan_);
}

}  // namespace longshore::offload
