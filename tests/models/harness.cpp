#include "tests/models/harness.h"

#include <ATen/ops/cos.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/log.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <sstream>

#include "longshore/base/error.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/onednn_matmul.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size)
#define ASAN_UNPOISON_MEMORY_REGION(address, size)
#endif

namespace longshore::models {
namespace {

// MKL, which ATen's functions of single numbers come from, chooses a kernel in a function's first
// call. Where several threads make that call, one of them may be served by a kernel of 1e-5's
// accuracy (PyTorch's issue 188792). So one thread makes it, before any test.
[[maybe_unused]] const bool mkl_has_chosen = [] {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor x = at::ones({16}, dtype);
    for (auto function : {at::exp, at::log, at::tanh, at::sqrt, at::sin, at::cos}) function(x);
  }
  return true;
}();

// What memory holds before a kernel runs: NaNs, or harmless small numbers. A kernel that reads
// what it has not written gives different bits with the two.
constexpr std::byte kNan{0xff}, kSmall{0x3c};
constexpr int64_t kCanary = 4096;

class GuardedMemory {
 public:
  GuardedMemory(int64_t bytes, std::byte fill) : bytes_(bytes) {
    // The operand starts 64 bytes after a page: aligned to a cache line, not to more.
    int64_t whole = (2 * kCanary + 64 + bytes + 4095) / 4096 * 4096;
    block_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, whole)));
    if (!block_) throw std::bad_alloc();
    std::memset(block_.get(), static_cast<int>(kNan), whole);
    std::memset(data(), static_cast<int>(fill), bytes);
    ASAN_POISON_MEMORY_REGION(before(), kCanary);
    ASAN_POISON_MEMORY_REGION(after(), kCanary);
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() { unpoison(); }

  std::byte* data() const { return block_.get() + kCanary + 64; }
  int64_t bytes() const { return bytes_; }

  bool intact() const {
    unpoison();
    auto untouched = [](const std::byte* canary) {
      return std::all_of(canary, canary + kCanary, [](std::byte b) { return b == kNan; });
    };
    return untouched(before()) && untouched(after());
  }

  // Bytes up to the last one that differs from `fill`.
  int64_t touched(std::byte fill) const {
    int64_t end = bytes_;
    while (end > 0 && data()[end - 1] == fill) --end;
    return end;
  }

 private:
  struct Free {
    void operator()(std::byte* block) const { std::free(block); }
  };

  std::byte* before() const { return data() - kCanary; }
  std::byte* after() const { return data() + bytes_; }
  void unpoison() const {
    ASAN_UNPOISON_MEMORY_REGION(before(), kCanary);
    ASAN_UNPOISON_MEMORY_REGION(after(), kCanary);
  }

  std::unique_ptr<std::byte, Free> block_;
  int64_t bytes_;
};

using Memory = std::shared_ptr<GuardedMemory>;

Memory memory_of(const at::Tensor& tensor) {
  at::Tensor source = tensor.contiguous();
  auto memory = std::make_shared<GuardedMemory>(source.nbytes(), kNan);
  std::memcpy(memory->data(), source.const_data_ptr(), source.nbytes());
  return memory;
}

at::Tensor tensor_of(const Memory& memory, const Type& type) {
  return at::from_blob(
      memory->data(), type.shape.sizes(), [memory](void*) {},
      at::TensorOptions(scalar_type(type.dtype)));
}

// Where a run puts each output: into the memory of an input, or (-1) into memory of its own.
using Placement = std::vector<int>;

struct Run {
  std::vector<Memory> out;
  Memory workspace;
};

Run run_once(const Program& program, const Node& node, std::span<const at::Tensor> in,
             const KernelChoice& kernels, const Placement& placement, std::byte fill) {
  const Kernel kernel = kernels.kernel(*node.op);
  Types in_types = program.types(node.in), out_types = program.types(node.out);
  if (!kernel.run) throw InternalError(std::string(node.op->name) + " has no such kernel");

  std::map<ValueId, Memory> inputs;  // a value that is read twice lies in one place
  std::vector<Ref> in_refs, out_refs;
  for (size_t i = 0; i < node.in.size(); ++i) {
    Memory& memory = inputs[node.in[i]];
    if (!memory) memory = memory_of(in[i]);
    in_refs.push_back({memory->data(), in_types[i]});
  }
  Run run;
  std::set<ValueId> overwritten;
  for (size_t i = 0; i < node.out.size(); ++i) {
    if (placement[i] >= 0) {
      run.out.push_back(inputs[node.in[placement[i]]]);
      overwritten.insert(node.in[placement[i]]);
    } else {
      run.out.push_back(std::make_shared<GuardedMemory>(out_types[i].bytes(), fill));
    }
    out_refs.push_back({run.out[i]->data(), out_types[i]});
  }
  int64_t bytes =
      kernel.workspace_bytes ? kernel.workspace_bytes(node.attrs, in_types, out_types) : 0;
  run.workspace = std::make_shared<GuardedMemory>(bytes, fill);
  std::span<std::byte> workspace;
  if (bytes > 0) workspace = {run.workspace->data(), static_cast<size_t>(bytes)};

  kernel.run({.target = kernels.target(*node.op),
              .attrs = node.attrs,
              .in = in_refs,
              .out = out_refs,
              .workspace = workspace});

  EXPECT_TRUE(run.workspace->intact()) << "wrote outside its workspace: " << text(program, node);
  for (size_t i = 0; i < run.out.size(); ++i)
    EXPECT_TRUE(run.out[i]->intact())
        << "wrote outside output " << i << ": " << text(program, node);
  for (size_t i = 0; i < node.in.size(); ++i) {
    const Memory& memory = inputs[node.in[i]];
    EXPECT_TRUE(memory->intact()) << "wrote beside input " << i << ": " << text(program, node);
    if (overwritten.contains(node.in[i])) continue;
    EXPECT_EQ(std::memcmp(memory->data(), in[i].contiguous().const_data_ptr(), memory->bytes()), 0)
        << "wrote to input " << i << ": " << text(program, node);
  }
  return run;
}

void expect_equal(const Program& program, const Node& node, const Run& expected, const Run& found,
                  const std::string& what) {
  for (size_t i = 0; i < node.out.size(); ++i)
    EXPECT_EQ(std::memcmp(expected.out[i]->data(), found.out[i]->data(), expected.out[i]->bytes()),
              0)
        << "output " << i << " differs " << what << ": " << text(program, node);
}

// Each choice alone, and as many together as memory allows, best first.
std::vector<Placement> placements(const Program& program, const Node& node) {
  std::vector<Placement> result;
  Placement together(node.out.size(), -1);
  std::set<ValueId> taken;
  for (Reuse choice : node.op->in_place(node.attrs, static_cast<int>(node.in.size()))) {
    EXPECT_LT(choice.out, std::ssize(node.out)) << text(program, node);
    EXPECT_LT(choice.in, std::ssize(node.in)) << text(program, node);
    ValueId in = node.in[choice.in];
    EXPECT_EQ(program[in].type.bytes(), program[node.out[choice.out]].type.bytes())
        << "input " << choice.in << " cannot hold output " << choice.out << ": "
        << text(program, node);
    Placement alone(node.out.size(), -1);
    alone[choice.out] = choice.in;
    result.push_back(alone);
    if (together[choice.out] < 0 && taken.insert(in).second) together[choice.out] = choice.in;
  }
  result.push_back(together);
  return result;
}

}  // namespace

bool KernelChoice::emulates(const Op& op) const {
  return emulated_ && emulated_kernel(op, *emulated_).run;
}

Kernel KernelChoice::kernel(const Op& op) const {
  return emulates(op) ? emulated_kernel(op, *emulated_) : op.kernel(target_);
}

Target KernelChoice::target(const Op& op) const {
  return emulates(op) ? Target::reference : target_;
}

Type type_of(const at::Tensor& tensor) {
  Type type;
  for (Dtype dtype : {Dtype::float64, Dtype::float32, Dtype::bfloat16, Dtype::int32, Dtype::uint8})
    if (scalar_type(dtype) == tensor.scalar_type()) type.dtype = dtype;
  at::IntArrayRef s = tensor.sizes();
  switch (tensor.dim()) {
    case 0:
      break;
    case 1:
      type.shape = {s[0]};
      break;
    case 2:
      type.shape = {s[0], s[1]};
      break;
    case 3:
      type.shape = {s[0], s[1], s[2]};
      break;
    default:
      type.shape = {s[0], s[1], s[2], s[3]};
  }
  return type;
}

bool equal_bits(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor x = a.contiguous(), y = b.contiguous();
  return type_of(x) == type_of(y) &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

double difference(const at::Tensor& found, const at::Tensor& expected) {
  at::Tensor x = found.to(at::kDouble), y = expected.to(at::kDouble);
  double scale = std::sqrt(y.square().mean().item<double>());
  if (scale < kNextToNothing) scale = 1;
  double error = ((x - y).abs() / (y.abs() + scale)).max().item<double>();
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

NodeRun run_node(const Program& program, const Node& node, std::span<const at::Tensor> in,
                 KernelChoice kernels, Checks checks) {
  Placement apart(node.out.size(), -1);
  Run run = run_once(program, node, in, kernels, apart, kNan);
  NodeRun result{.out = {},
                 .workspace_declared_bytes = run.workspace->bytes(),
                 .workspace_touched_bytes = run.workspace->touched(kNan)};
  Types types = program.types(node.out);
  for (size_t i = 0; i < run.out.size(); ++i) result.out.push_back(tensor_of(run.out[i], types[i]));
  if (checks == Checks::memory) return result;

  expect_equal(program, node, run, run_once(program, node, in, kernels, apart, kSmall),
               "when run again");
  for (const Placement& placement : placements(program, node)) {
    std::ostringstream what;
    what << "with outputs in place of inputs (-1: apart)";
    for (int input : placement) what << ' ' << input;
    expect_equal(program, node, run, run_once(program, node, in, kernels, placement, kNan),
                 what.str());
  }
  return result;
}

Tensors run_program(const Program& program, const Tensors& inputs, KernelChoice kernels,
                    Checks checks) {
  std::map<ValueId, at::Tensor> values;
  for (ValueId id : program.inputs)
    if (auto given = inputs.find(program[id].name); given != inputs.end()) {
      if (type_of(given->second) != program[id].type)
        throw InternalError(program.name + ": " + program[id].name + " is " +
                            text(program[id].type) + ", but the test gives " +
                            text(type_of(given->second)));
      values[id] = given->second;
    }
  auto get = [&](ValueId id) {
    auto found = values.find(id);
    if (found == values.end())
      throw InternalError(program.name + ": the test gives no " + program[id].name);
    return found->second;
  };
  for (const Node& node : program.nodes) {
    std::vector<at::Tensor> in;
    for (ValueId id : node.in) in.push_back(get(id));
    NodeRun run = run_node(program, node, in, kernels, checks);
    for (size_t i = 0; i < node.out.size(); ++i) values[node.out[i]] = run.out[i];
  }
  for (const Output& output : program.outputs) get(output.value);
  Tensors result;
  for (const auto& [id, tensor] : values) result[program[id].name] = tensor;
  return result;
}

BackwardProgram differentiate(const Program& program, std::vector<ValueId> accumulate) {
  bool wide = std::any_of(program.values.begin(), program.values.end(),
                          [](const Value& value) { return value.type.dtype == Dtype::float64; });
  return backward(program, {.accumulate = std::move(accumulate),
                            .weight_gradient_dtype = wide ? Dtype::float64 : Dtype::float32});
}

Tensors run_backward(const Program& forward, const BackwardProgram& backward,
                     const Tensors& forward_values, const Tensors& cotangents,
                     const Tensors& accumulators, KernelChoice kernels, Checks checks) {
  Tensors known = forward_values;
  for (size_t i = 0; i < forward.outputs.size(); ++i)
    if (ValueId cotangent = backward.cotangents[i])
      known[backward.program[cotangent].name] =
          cotangents.at(forward[forward.outputs[i].value].name);
  for (const auto& [weight, sum] : backward.accumulators)
    known[backward.program[sum].name] = accumulators.at(forward[weight].name);

  Tensors values = run_program(backward.program, known, kernels, checks);
  // A loss that the backward pass makes as well is the same to the bit.
  for (const auto& [output, value] : backward.remade_outputs)
    EXPECT_TRUE(equal_bits(values.at(backward.program[value].name),
                           forward_values.at(forward[output].name)))
        << forward[output].name << " differs from what the backward program makes";
  Tensors gradients;
  for (const GradientOf& gradient : backward.gradients)
    gradients[forward[gradient.of].name] = values.at(backward.program[gradient.gradient].name);
  return gradients;
}

Step run_step(const Program& forward, const BackwardProgram& backward, const Tensors& inputs,
              const Tensors& cotangents, const Tensors& accumulators, KernelChoice kernels,
              Checks checks) {
  Tensors values = run_program(forward, inputs, kernels, checks);
  return {values,
          run_backward(forward, backward, values, cotangents, accumulators, kernels, checks)};
}

void expect_same_bits_on_any_threads(const std::function<Step()>& run) {
  const int threads = omp_get_max_threads();
  auto run_on = [&](int count) {
    omp_set_num_threads(count);
    return run();
  };
  const Step alone = run_on(1);
  for (int count : {2, 3, 7}) {
    const Step found = run_on(count);
    for (const auto& [name, value] : alone.values)
      EXPECT_TRUE(equal_bits(found.values.at(name), value)) << name << ", " << count << " threads";
    for (const auto& [name, gradient] : alone.gradients)
      EXPECT_TRUE(equal_bits(found.gradients.at(name), gradient))
          << name << ", " << count << " threads";
  }
  omp_set_num_threads(threads);
}

}  // namespace longshore::models
