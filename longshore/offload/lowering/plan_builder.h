// Builds a plan: instructions in order, operands by name; then moves through staged ranges,
// lifetimes, in-place reuse, places in memory and waits follow.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "longshore/models/ir/program.h"
#include "longshore/offload/lowering/staging.h"
#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

class PlanBuilder {
 public:
  PlanBuilder(std::string name, models::Target target);

  // The argument of that name, made on first use. Every use must agree on bytes.
  int argument(const std::string& name, int64_t bytes, MemoryKind kind, Category category);
  Operand argument(const std::string& name, const models::Type& type, MemoryKind kind,
                   Category category);
  // The part of an argument that the plan's first run reads, of `count` parts one behind the other,
  // each from an aligned offset. A run reads the part after that of the run before.
  Operand argument_part(const std::string& name, const models::Type& type, int64_t part,
                        int64_t count, MemoryKind kind, Category category);
  int temporary(const std::string& name, int64_t bytes, MemoryKind kind, Category category);
  Operand temporary(const std::string& name, const models::Type& type, MemoryKind kind,
                    Category category);
  // A temporary that is read before it is written and then left to the next run; or, `from` being
  // the plan that leaves it, one that is read where that plan left it.
  int persistent(const std::string& name, int64_t bytes, MemoryKind kind, Category category,
                 const Plan* from = nullptr);

  // A device operand that stands for a range of host memory. StagedRanges that are written must not
  // overlap others that are in use at the same time.
  Operand staged(const Operand& host, const std::string& name);
  // A device operand of that type, [ranks * shard], that stands for all ranks' shards in their
  // order. It is only read.
  Operand gathered(const Operand& shard, const models::Type& type, const Collective& among,
                   const std::string& name);
  // Sends a device operand to host memory of its own; returns the staged range to read it through.
  Operand offload(const Operand& value, const Scope& scope);

  // Where each value of a program lies, by value id; unbound ones are given temporaries.
  using Bindings = std::vector<Operand>;

  // Appends the program's nodes; `after` is called after each. On Lane::compute operands lie on
  // the device, on Lane::host_compute in pinned host memory; a node given both is refused with a
  // UsageError. put nodes become moves, or staged ranges where they bring host memory to the
  // device; collectives become instructions of Lane::network.
  using AfterNode = std::function<void(const models::Node&)>;
  void run(const models::Program& program, Bindings& bindings, const Scope& scope,
           Lane lane = Lane::compute, const AfterNode& after = nullptr);
  // sum += part
  void add(const Operand& sum, const Operand& part, const Scope& scope);
  void move(Lane lane, const Operand& from, const Operand& to, const Scope& scope);
  // On the lane that leads from one to the other.
  void move(const Operand& from, const Operand& to, const Scope& scope);

  // An instruction of Lane::network; operands lie on the device.
  void collective(const models::Op& op, const Collective& among, const Operand& from,
                  const Operand& to, const Scope& scope);

  MemoryKind kind(const Operand& operand) const { return plan_.buffers[operand.buffer].kind; }

  // Keeps the bytes of a temporary up to the latest instruction, although that does not use them.
  void keep_alive(const Operand& operand);

  // For a temporary whose category is still temporaries, which all values start with.
  void set_category(const Operand& operand, Category category);

  // Gives a temporary the name of what its bytes are to those that read them.
  void rename(const Operand& operand, const std::string& name);

  Plan finish(const Transfers& transfers = {});

 private:
  void run_put(const models::Program& program, const models::Node& node, Bindings& bindings,
               const Scope& scope);
  void run_collective(const models::Program& program, const models::Node& node, Bindings& bindings,
                      const Scope& scope);
  void check_kinds(const Instruction& instruction, const models::Node& node, MemoryKind kind);

  Plan plan_;
  std::map<std::string, int> arguments_;
  std::vector<StagedRange> staged_;
  std::vector<KeepAlive> keep_alives_;
  std::map<int, int64_t> fixed_;  // offsets of buffers that another plan left
};

}  // namespace longshore::offload
