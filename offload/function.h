// A traced function, compiled for a backend: inputs and outputs where the caller says.
#pragma once

#include <memory>
#include <vector>

#include "models/program.h"
#include "offload/arenas.h"
#include "offload/plan_builder.h"
#include "offload/tensor.h"

namespace longshore::offload {

struct FunctionOptions {
  // Device where nothing is said.
  std::vector<Placement> inputs, outputs;
  // Inputs that are given away: an output of the same type and placement takes the memory of such
  // an input where nothing reads it any more. The caller's tensor then holds the output.
  std::vector<int> donated;
  Transfers transfers;
};

class Function {
 public:
  // Throws PlanError when a node would work on values of different memory kinds, naming both.
  Function(Runtime& runtime, const models::Program& program, const FunctionOptions& options = {});

  // Throws PlanError when an input is not of the type and in the place that was compiled for.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);

  MemoryAnalysis memory_analysis(MemoryKind kind) const { return analyze(plan_, kind); }
  const Plan& plan() const { return plan_; }

 private:
  struct Result {
    models::Type type;
    Placement placement;
    int input = -1;  // whose memory it takes, or which it is
    int buffer = -1;
  };
  int donated_input(const models::Program& program, const models::Output& output,
                    const Placement& placement, const FunctionOptions& options) const;

  Runtime& runtime_;
  Plan plan_;
  std::vector<int> input_buffers_;
  std::vector<models::Type> input_types_;
  std::vector<Placement> input_placements_;
  std::vector<Result> results_;
  std::unique_ptr<Arenas> arenas_;
};

}  // namespace longshore::offload
