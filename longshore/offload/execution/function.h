// A traced function, compiled for a backend. The caller chooses where inputs and outputs live.
#pragma once

#include <memory>
#include <vector>

#include "longshore/models/ir/program.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/tensor.h"
#include "longshore/offload/lowering/plan_builder.h"
#include "longshore/offload/plan/memory_analysis.h"

namespace longshore::offload {

struct FunctionOptions {
  // Where the first inputs and outputs are; the others are on the device.
  std::vector<Placement> inputs, outputs;
  // Indices of inputs whose memory may be reused: an output of the same type and placement takes it
  // where nothing reads the input any more. The caller's input tensor then holds the output.
  std::vector<int> donated;
  Transfers transfers;
};

class Function {
 public:
  // Throws UsageError for options that do not suit the program, and where a node would work on
  // values of different memory kinds, naming both.
  Function(Runtime& runtime, const models::Program& program, const FunctionOptions& options = {});

  // Throws UsageError where an input does not have the type and placement that the function was
  // compiled for.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);

  MemoryAnalysis memory_analysis(MemoryKind kind) const { return analyze(plan_, kind); }
  const Plan& plan() const { return plan_; }

 private:
  struct Result {
    models::Type type;
    Placement placement;
    int input = -1;  // the input whose memory it takes; -1 for none
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
