// Builds a plan: instructions in order, operands by name; then lifetimes, in-place reuse, places in
// memory and waits follow.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/program.h"
#include "offload/plan.h"

namespace longshore::offload {

class PlanBuilder {
 public:
  PlanBuilder(std::string name, models::Target target);

  // The argument of that name, made on first use. Every use must agree on bytes.
  int argument(const std::string& name, int64_t bytes, MemoryKind kind, Category category);
  int temporary(const std::string& name, int64_t bytes, MemoryKind kind, Category category);
  Operand temporary(const std::string& name, const models::Type& type, MemoryKind kind,
                    Category category);

  // Where each value of a program lies, by value id; unbound ones are given temporaries.
  using Bindings = std::vector<Operand>;

  // Appends the program's nodes on the compute lane.
  void run(const models::Program& program, Bindings& bindings, const Place& place);
  void move(Lane lane, const Operand& from, const Operand& to, const Place& place);

  void set_category(const Operand& operand, Category category);

  Plan finish();

 private:
  void find_lifetimes();
  void reuse_dying_inputs();
  void place_temporaries();
  void find_waits();

  Plan plan_;
  std::vector<int> place_of_;  // by buffer: the buffer whose place it shares, itself for most
  std::map<std::string, int> arguments_;
};

}  // namespace longshore::offload
