// The record of an op: everything the rest of the program knows about it. An op has its header and
// source in longshore/models/ops/ (more sources where its kernels are large) and a line in
// longshore/models/ops/all.cpp.
//
// Kernels write into memory that the executor provides: outputs and one workspace. They never
// allocate. A kernel that calls a library which insists on allocating has that library's
// allocations served from its workspace, and counts them in `workspace_bytes`.
#pragma once

#include <any>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "longshore/models/ir/types.h"

namespace longshore::models {

class Backward;
struct Node;

using Types = std::vector<Type>;

// Work of one node. `bytes` counts each operand once: what a perfect cache would move.
struct Cost {
  double flops = 0;
  double bytes = 0;
  double rows = 0;  // of OpClass::grouped: of an expert on average, by which their rate is known
};

// A plain reference to memory of a known type; who owns it is the executor's business.
struct Ref {
  void* data = nullptr;
  Type type;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// cuda_composed is the same device as cuda, with ATen's ops and compositions of them in the place
// of our custom kernels, cuBLASLt's and cuDNN's.
enum class Target { cpu, cuda, cuda_composed, reference };

const char* name(Target target);  // "cpu", "cuda", "cuda_composed", "reference"

constexpr bool is_cuda(Target target) {
  return target == Target::cuda || target == Target::cuda_composed;
}

// Whether the two differ in their kernels at most.
constexpr bool same_device(Target a, Target b) { return a == b || (is_cuda(a) && is_cuda(b)); }

// The target whose kernels run on the host of a device of that target.
constexpr Target host_target(Target device) {
  return device == Target::reference ? Target::reference : Target::cpu;
}

Types types_of(std::span<const Ref> refs);

struct KernelCall {
  Target target;
  const std::any& attrs;
  std::span<const Ref> in;
  std::span<const Ref> out;
  std::span<std::byte> workspace;
  void* stream = nullptr;  // cudaStream_t on CUDA
};

struct Kernel {
  // Null for our custom kernels on CUDA, cuBLASLt's and cuDNN's in builds without CUDA: they plan
  // for them alone.
  void (*run)(const KernelCall&) = nullptr;
  // Bytes of workspace; null means none.
  int64_t (*workspace_bytes)(const std::any& attrs, std::span<const Type> in,
                             std::span<const Type> out) = nullptr;
  // Which of several ways serves this case, in words; null where there is one. Throws InternalError
  // where none does.
  std::string (*path)(const std::any& attrs, std::span<const Type> in) = nullptr;
};

// Output `out` may be written into the memory of input `in` when that input dies at this node.
struct Reuse {
  int out;
  int in;
};

// Cheap ops (element-wise, no matmul, no reduction over long rows) are computed again rather than
// kept when what they read is kept anyway.
enum class RecomputeCost : uint8_t { low, high };

// What limits an op, and so how its time is estimated: products, attention, products of experts'
// rows, or memory traffic.
enum class OpClass : uint8_t { memory, matmul, attention, grouped };
inline constexpr std::array kOpClasses{OpClass::memory, OpClass::matmul, OpClass::attention,
                                       OpClass::grouped};

const char* name(OpClass op_class);

// Nodes of an op that take another time for the same work: the name by which profiles give their
// rates, and which nodes they are.
struct OpVariant {
  const char* name = nullptr;  // null: all nodes are alike
  bool (*is)(const std::any& attrs) = nullptr;
};

struct Op {
  const char* name;
  // Output types; throws InternalError when the inputs do not fit.
  Types (*infer)(const std::any& attrs, std::span<const Type> in);
  // Emits the nodes that give the inputs' gradients; null for ops nobody differentiates.
  void (*vjp)(Backward& backward, const Node& node) = nullptr;
  Cost (*cost)(const std::any& attrs, std::span<const Type> in, std::span<const Type> out);
  std::string (*print)(const std::any& attrs) = nullptr;  // "causal, heads=8"; null or "": nothing
  // In-place choices of one node besides its sum, best first; see in_place().
  std::vector<Reuse> (*reuse)(const std::any& attrs, int inputs) = nullptr;
  // The number of an optional last input: a sum that output 0, of its type, is added to and may be
  // written over. -1: there is none.
  int sum_input = -1;
  RecomputeCost recompute_cost = RecomputeCost::high;
  OpClass op_class = OpClass::memory;
  OpVariant variant;
  Kernel cpu;            // float32 and bfloat16, fused and fast
  Kernel cuda;           // float32 and bfloat16
  Kernel cuda_composed;  // where `cuda` is not ATen's: what of ATen it stands for
  Kernel reference;  // plain composition on the CPU, in any float dtype: what tests compare with

  const Kernel& kernel(Target target) const {
    switch (target) {
      case Target::cpu:
        return cpu;
      case Target::cuda:
        return cuda;
      case Target::cuda_composed:
        return cuda_composed.run ? cuda_composed : cuda;
      case Target::reference:
        break;
    }
    return reference;
  }

  // In-place choices of a node with so many inputs, best first.
  std::vector<Reuse> in_place(const std::any& attrs, int inputs) const {
    std::vector<Reuse> choices;
    if (sum_input >= 0 && inputs == sum_input + 1) choices.push_back({.out = 0, .in = sum_input});
    if (reuse)
      for (Reuse choice : reuse(attrs, inputs)) choices.push_back(choice);
    return choices;
  }

  // By which profiles give the rate of a node.
  const char* rate_name(const std::any& attrs) const {
    return variant.name && variant.is(attrs) ? variant.name : name;
  }

  // Whether a plan may say that the target runs this op, be it in another build than this one.
  bool has_kernel(Target target) const {
    return kernel(target).run || (target == Target::cuda && cuda_composed.run);
  }
};

// Every op there is, for tests and for verifying that a target has all kernels of a program.
std::span<const Op* const> all_ops();

}  // namespace longshore::models
