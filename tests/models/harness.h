// Runs programs in plain heap memory, one node after the other, and watches what kernels do to it:
// the op tests' executor, with no plan, no policy and no reuse of memory between nodes.
//
// Each operand lies between canaries, aligned to 64 bytes and no more. Faults of a kernel are
// reported as failures of the running test, with the node's text.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/program.h"
#include "tests/models/emulated_kernels.h"

namespace longshore::models {

// Values by name.
using Tensors = std::map<std::string, at::Tensor>;

enum class Checks {
  memory,  // kernels write their outputs and their workspace only
  all,     // ... and give the same bits again, whatever lay in memory before, also in place
};

// Which kernels run: those of a target, or our own for GPUs as emulated_kernels.h emulates them,
// with the CPU's where an op has none.
class KernelChoice {
 public:
  KernelChoice(Target target) : target_(target) {}
  KernelChoice(Emulated emulated) : emulated_(emulated) {}

  Kernel kernel(const Op& op) const;
  Target target(const Op& op) const;  // that its calls say
  bool is_of(Target target) const { return !emulated_ && target_ == target; }

 private:
  bool emulates(const Op& op) const;

  Target target_ = Target::cpu;
  std::optional<Emulated> emulated_;
};

struct NodeRun {
  std::vector<at::Tensor> out;
  int64_t workspace_declared_bytes = 0;
  int64_t workspace_touched_bytes = 0;  // up to the last byte that was written
};

// Outputs are filled with NaN (bytes 0xff) before the run.
NodeRun run_node(const Program& program, const Node& node, std::span<const at::Tensor> in,
                 KernelChoice kernels, Checks checks = Checks::memory);

// `inputs`: every value without a node that a node or an output reads. Returns all values.
Tensors run_program(const Program& program, const Tensors& inputs, KernelChoice kernels,
                    Checks checks = Checks::memory);

// float64 gradients for float64, else float32, as training has them.
BackwardProgram differentiate(const Program& program, std::vector<ValueId> accumulate = {});

// The gradients of a program that has run. `cotangents` and `accumulators` go by the name of the
// forward value they belong to; so do the gradients.
Tensors run_backward(const Program& forward, const BackwardProgram& backward,
                     const Tensors& forward_values, const Tensors& cotangents,
                     const Tensors& accumulators, KernelChoice kernels,
                     Checks checks = Checks::memory);

// Both.
struct Step {
  Tensors values;  // of the forward program
  Tensors gradients;
};
Step run_step(const Program& forward, const BackwardProgram& backward, const Tensors& inputs,
              const Tensors& cotangents, const Tensors& accumulators, KernelChoice kernels,
              Checks checks = Checks::memory);

Type type_of(const at::Tensor& tensor);
bool equal_bits(const at::Tensor& a, const at::Tensor& b);

// The largest difference of an element from what is expected, relative to the sum of that element
// and the root mean square of all; infinite where a NaN is. Tests use numbers of order one: where
// next to nothing is expected, because terms cancel, one stands in for the root mean square.
double difference(const at::Tensor& found, const at::Tensor& expected);
inline constexpr double kNextToNothing = 1e-4;

// Runs it on 1, 2, 3 and 7 threads, which must give the same bits.
void expect_same_bits_on_any_threads(const std::function<Step()>& run);

}  // namespace longshore::models
