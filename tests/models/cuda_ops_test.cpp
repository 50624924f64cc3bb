// All kernels on a GPU: against the reference in float64 and the CPU's kernels, and what they write
// beside their outputs. Our own, cuBLASLt's and cuDNN's also against ATen's on the same GPU, and
// whether they give the same bits again, also in place.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/attention/attention_cudnn.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/onednn_matmul.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/square_sum/square_sum.h"
#include "longshore/models/ops/update/adamw.h"
#include "longshore/models/ops/update/lion.h"
#include "longshore/models/ops/update/sgd.h"
#include "longshore/offload/backends/cuda/cuda_backend.h"
#include "longshore/offload/backends/cuda/cuda_device.h"
#include "tests/models/harness.h"
#include "tests/models/op_cases.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/attention.h"
#include "tests/models/random_inputs.h"
#include "tests/models/update_program.h"

namespace longshore::models {
namespace {

using testing::HasSubstr;
using testing::Not;

using offload::Backend;
using offload::Lane;
using offload::MemoryKind;

constexpr std::byte kNan{0xff}, kSmall{0x3c};
constexpr int64_t kCanary = 512;

// Memory of the GPU between canaries.
class DeviceMemory {
 public:
  DeviceMemory(Backend& backend, int64_t bytes, std::byte fill)
      : backend_(backend),
        bytes_(bytes),
        block_(backend.allocate(MemoryKind::device, bytes + 2 * kCanary)) {
    const std::vector<std::byte> canary(kCanary, kNan), inside(bytes, fill);
    write(0, canary.data(), kCanary);
    write(kCanary, inside.data(), bytes);
    write(kCanary + bytes, canary.data(), kCanary);
  }
  ~DeviceMemory() { backend_.free(MemoryKind::device, block_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* data() const { return block_ + kCanary; }
  int64_t bytes() const { return bytes_; }
  void write(const void* from) { write(kCanary, from, bytes_); }
  void read(void* to) const { backend_.read(MemoryKind::device, to, data(), bytes_); }

  bool intact() const {
    for (std::byte* at : {block_, data() + bytes_}) {
      std::vector<std::byte> canary(kCanary);
      backend_.read(MemoryKind::device, canary.data(), at, kCanary);
      if (std::ranges::any_of(canary, [](std::byte b) { return b != kNan; })) return false;
    }
    return true;
  }

 private:
  void write(int64_t at, const void* from, int64_t bytes) {
    if (bytes > 0) backend_.write(MemoryKind::device, block_ + at, from, bytes);
  }

  Backend& backend_;
  int64_t bytes_;
  std::byte* block_;
};

using Memory = std::shared_ptr<DeviceMemory>;

// Output i lies in the memory of input placement[i], or (-1) apart.
using Placement = std::vector<int>;

Placement apart(const Node& node) { return Placement(node.out.size(), -1); }

// As many outputs in inputs' places as may be at once.
Placement in_place(const Node& node) {
  Placement placement = apart(node);
  std::set<ValueId> taken;
  for (Reuse choice : node.op->in_place(node.attrs, static_cast<int>(node.in.size())))
    if (placement[choice.out] < 0 && taken.insert(node.in[choice.in]).second)
      placement[choice.out] = choice.in;
  return placement;
}

std::vector<at::Tensor> run_on(Backend& backend, const Program& program, const Node& node,
                               const std::vector<at::Tensor>& in, const Placement& placement,
                               std::byte fill) {
  const Types in_types = program.types(node.in), out_types = program.types(node.out);
  const Kernel& kernel = node.op->kernel(backend.target());
  std::map<ValueId, Memory> inputs;
  std::vector<Memory> outputs;
  std::vector<Ref> in_refs, out_refs;
  for (size_t i = 0; i < in.size(); ++i) {
    Memory& memory = inputs[node.in[i]];
    if (!memory) {
      memory = std::make_shared<DeviceMemory>(backend, in_types[i].bytes(), fill);
      memory->write(in[i].contiguous().const_data_ptr());
    }
    in_refs.push_back({memory->data(), in_types[i]});
  }
  for (size_t i = 0; i < node.out.size(); ++i) {
    outputs.push_back(placement[i] >= 0
                          ? inputs[node.in[placement[i]]]
                          : std::make_shared<DeviceMemory>(backend, out_types[i].bytes(), fill));
    out_refs.push_back({outputs[i]->data(), out_types[i]});
  }
  const int64_t bytes =
      kernel.workspace_bytes ? kernel.workspace_bytes(node.attrs, in_types, out_types) : 0;
  DeviceMemory workspace(backend, bytes, fill);
  try {
    backend.run(Lane::compute, *node.op,
                {.target = backend.target(),
                 .attrs = node.attrs,
                 .in = in_refs,
                 .out = out_refs,
                 .workspace = {workspace.data(), static_cast<size_t>(bytes)}});
    backend.synchronize();
  } catch (const std::exception& error) {
    throw Error(text(program, node) + ": " + error.what());
  }

  EXPECT_TRUE(workspace.intact()) << "wrote beside its workspace: " << text(program, node);
  for (const auto& [id, memory] : inputs)
    EXPECT_TRUE(memory->intact()) << "wrote beside an input: " << text(program, node);
  for (size_t i = 0; i < in.size(); ++i) {
    const Memory& memory = inputs[node.in[i]];
    if (std::ranges::find(outputs, memory) != outputs.end()) continue;  // which took its place
    at::Tensor after = at::empty_like(in[i], at::MemoryFormat::Contiguous);
    memory->read(after.mutable_data_ptr());
    EXPECT_TRUE(equal_bits(after, in[i].contiguous()))
        << "wrote input " << i << ": " << text(program, node);
  }
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_TRUE(outputs[i]->intact()) << "wrote beside an output: " << text(program, node);
    std::vector<int64_t> sizes;
    for (int d = 0; d < out_types[i].shape.rank(); ++d) sizes.push_back(out_types[i].shape[d]);
    results.push_back(at::empty(sizes, scalar_type(out_types[i].dtype)));
    outputs[i]->read(results.back().mutable_data_ptr());
  }
  return results;
}

// What is said on stderr while it lives.
class Said {
 public:
  Said() { testing::internal::CaptureStderr(); }
  ~Said() {
    if (!taken_) testing::internal::GetCapturedStderr();
  }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;

  std::string take() {
    taken_ = true;
    return testing::internal::GetCapturedStderr();
  }

 private:
  bool taken_ = false;
};

bool updates(const Op& op) { return &op == &adamw_op || &op == &lion_op || &op == &sgd_op; }

class CudaOps : public testing::Test {
 protected:
  void SetUp() override {
    if (offload::CudaDevice device = offload::find_cuda_device(); !device.usable)
      GTEST_SKIP() << device.description;
    own_ = offload::make_cuda_backend();
    composed_ = offload::make_cuda_backend(0, nullptr, Target::cuda_composed);
  }

  // A product that is added to a bfloat16 matrix in its place is itself rounded before on Hopper,
  // and only then. No policy changes where it is: the backward pass needs no such matrix as it was.
  static bool adds_in_bfloat16(const Program& program, const Node& node) {
    const bool is_product = node.op == &linear_op || node.op == &linear_input_grad_op;
    return is_product && node.in.size() == 3 && program[node.out[0]].type.dtype == Dtype::bfloat16;
  }

  // Our custom kernel's results; the same when run again on other memory, and in place.
  std::vector<at::Tensor> run_own(const Program& program, const Node& node,
                                  const std::vector<at::Tensor>& in) {
    Said said;
    const std::vector<at::Tensor> found = run_on(*own_, program, node, in, apart(node), kNan);
    const std::string text = said.take();
    EXPECT_THAT(text, Not(HasSubstr("declares a workspace")));
    expect_same(program, node, found, run_on(*own_, program, node, in, apart(node), kSmall),
                "when run again");
    const std::vector<at::Tensor> at_once = run_on(*own_, program, node, in, in_place(node), kNan);
    if (adds_in_bfloat16(program, node))
      // Each is as far as that from the exact one.
      EXPECT_LE(difference(at_once[0], found[0]), 2 * tolerance_of(*node.op).of(Dtype::bfloat16))
          << "in place: " << models::text(program, node);
    else
      expect_same(program, node, found, at_once, "in place");
    return found;
  }

  std::vector<at::Tensor> run_composed(const Program& program, const Node& node,
                                       const std::vector<at::Tensor>& in) {
    Said said;
    const std::vector<at::Tensor> found = run_on(*composed_, program, node, in, apart(node), kNan);
    const std::string text = said.take();
    EXPECT_THAT(text, Not(HasSubstr("declares a workspace")));
    return found;
  }

  static void expect_same(const Program& program, const Node& node,
                          const std::vector<at::Tensor>& expected,
                          const std::vector<at::Tensor>& found, const char* what) {
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(equal_bits(found[i], expected[i]))
          << "output " << i << " differs " << what << " by " << difference(found[i], expected[i])
          << ": " << text(program, node);
  }

  // The program's nodes in order, each on what the CPU's kernels made before it.
  void compare(const Program& narrow, const Program& wide, Tensors values, Dtype dtype) {
    for (size_t i = 0; i < narrow.nodes.size(); ++i) {
      const Node& node = narrow.nodes[i];
      std::vector<at::Tensor> in, wide_in;
      for (size_t k = 0; k < node.in.size(); ++k) {
        in.push_back(values.at(narrow[node.in[k]].name));
        wide_in.push_back(in.back().to(scalar_type(wide[wide.nodes[i].in[k]].type.dtype)));
      }
      const NodeRun cpu = run_node(narrow, node, in, Target::cpu);
      for (size_t k = 0; k < node.out.size(); ++k) values[narrow[node.out[k]].name] = cpu.out[k];

      const NodeRun reference = run_node(wide, wide.nodes[i], wide_in, Target::reference);
      const bool is_composed = !node.op->cuda_composed.run;
      const std::vector<at::Tensor> composed = run_composed(narrow, node, in);
      const std::vector<at::Tensor> own = is_composed ? composed : run_own(narrow, node, in);
      // The GPU's exp and tanh are a little less exact than ours, and so are ATen's sums of many
      // numbers.
      const double tolerance =
          std::max(2 * tolerance_of(*node.op).of(dtype), is_composed ? 1e-5 : 0);
      for (size_t k = 0; k < node.out.size(); ++k) {
        const std::string what = "output " + std::to_string(k) + " of " + text(narrow, node);
        if (k >= reference.out.size()) {  // an update's copy of the weight, its first output
          EXPECT_TRUE(equal_bits(own[k], own[0].to(own[k].scalar_type()))) << what;
          continue;
        }
        EXPECT_LE(difference(own[k], cpu.out[k]), tolerance) << what << ", from the CPU's";
        // States may be updated on either.
        if (updates(*node.op)) {
          EXPECT_TRUE(equal_bits(own[k], cpu.out[k])) << what << ", from the CPU's";
        }
        const double error = difference(own[k], reference.out[k]);
        EXPECT_LE(error, tolerance) << what << ", from float64";
        EXPECT_LE(difference(own[k], composed[k]), 2 * tolerance) << what << ", composed";
        double& largest = largest_difference_[node.op->name];
        largest = std::max(largest, error);
      }
    }
  }

  // ... each on what our own made before it, with ATen's alone. Returns all values.
  Tensors compare_with_composed(const Program& program, Tensors values) {
    for (const Node& node : program.nodes) {
      std::vector<at::Tensor> in;
      for (ValueId id : node.in) in.push_back(values.at(program[id].name));
      const std::vector<at::Tensor> own = run_own(program, node, in);
      const std::vector<at::Tensor> composed = run_composed(program, node, in);
      for (size_t k = 0; k < own.size(); ++k) {
        const Value& value = program[node.out[k]];
        EXPECT_LE(difference(own[k], composed[k]),
                  4 * tolerance_of(*node.op).of(program[node.in[0]].type.dtype))
            << "output " << k << " of " << text(program, node);
        values[value.name] = own[k];
      }
    }
    return values;
  }

  void compare_case(const OpCase& op_case, Dtype dtype) {
    SCOPED_TRACE(op_case.name + " in " + name(dtype));
    const Program narrow = op_case.trace(dtype), wide = op_case.trace(Dtype::float64);
    Tensors inputs = random_inputs(narrow, op_case, 500);
    compare(narrow, wide, inputs, dtype);
    if (!op_case.plain) return;
    const Tensors values = run_program(narrow, inputs, Target::cpu);
    const std::vector<ValueId> weights = narrow.inputs_from(Source::weight);
    for (const std::vector<ValueId>& accumulate : {std::vector<ValueId>{}, weights}) {
      const BackwardProgram backward = differentiate(narrow, accumulate);
      const BackwardProgram wide_backward = differentiate(wide, accumulate);
      Tensors known = values;
      for (const auto& [name, cotangent] : random_cotangents(narrow, 600))
        known[name + ".grad"] = cotangent;
      for (ValueId id : backward.program.inputs_from(Source::accumulator))
        known[backward.program[id].name] = random_normal(backward.program[id].type, 700 + id.index);
      compare(backward.program, wide_backward.program, known, dtype);
      if (weights.empty()) break;
    }
  }

  void compare_cases(const std::vector<OpCase>& cases, Dtype dtype) {
    if (dtype == Dtype::bfloat16 && !multiplies_bfloat16())
      GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
    for (const OpCase& op_case : cases) try {
        compare_case(op_case, dtype);
      } catch (const std::exception& error) {
        ADD_FAILURE() << op_case.name << " in " << name(dtype) << ": " << error.what();
        // After some faults nothing runs on the GPU any more.
        ASSERT_NO_THROW(own_->available_bytes(MemoryKind::device)) << "it takes no more work";
      }
    for (const auto& [op, error] : largest_difference_)
      std::printf("%s: largest difference %g\n", op.c_str(), error);
  }

  std::unique_ptr<Backend> own_, composed_;
  std::map<std::string, double> largest_difference_;
};

// Cases are dealt out to as many tests, which can run in processes at once.
constexpr size_t kParts = 8;

std::vector<OpCase> part_of_cases(size_t part) {
  std::vector<OpCase> cases;
  size_t number = 0;
  for (std::vector<OpCase>& all : std::array{small_cases(), large_cases()})
    for (OpCase& op_case : all)
      if (number++ % kParts == part) cases.push_back(std::move(op_case));
  return cases;
}

class CudaOpsOfPart : public CudaOps, public testing::WithParamInterface<size_t> {};

TEST_P(CudaOpsOfPart, AgreeInFloat32) { compare_cases(part_of_cases(GetParam()), Dtype::float32); }
TEST_P(CudaOpsOfPart, AgreeInBfloat16) {
  compare_cases(part_of_cases(GetParam()), Dtype::bfloat16);
}
INSTANTIATE_TEST_SUITE_P(Parts, CudaOpsOfPart, testing::Range(size_t{0}, kParts));

class CudaOpsOfRealModels : public CudaOps, public testing::WithParamInterface<size_t> {};

TEST_P(CudaOpsOfRealModels, AgreeAtTheirWidths) {
  compare_cases({real_cases()[GetParam()]}, Dtype::bfloat16);
}
INSTANTIATE_TEST_SUITE_P(Cases, CudaOpsOfRealModels,
                         testing::Range(size_t{0}, std::size(real_cases())));

// Sums of ones are the number of terms. Some of cuBLASLt's algorithms that split k leave out what
// follows the last whole 64.
TEST_F(CudaOps, ProductsSumAllTerms) {
  for (const int64_t tokens : {4097, 8193, 11528, 16385, 24616, 32769})
    for (const int64_t width : {8, 32, 64, 128, 256}) {
      Trace trace("linear");
      const Var x = trace.input("x", {{1, tokens, width}, Dtype::bfloat16});
      trace.output(linear(x, trace.weight("w", {{width, width}, Dtype::bfloat16}, Weight{})));
      const Program backward = differentiate(trace.finish()).program;
      const auto gradient = std::ranges::find(backward.nodes, &linear_weight_grad_op, &Node::op);
      ASSERT_NE(gradient, backward.nodes.end());
      const at::Tensor ones = at::ones({1, tokens, width}, at::kBFloat16);
      const at::Tensor sums = run_own(backward, *gradient, {ones, ones}).at(0);
      EXPECT_EQ(sums.min().item<double>(), tokens) << width << " wide";
      EXPECT_EQ(sums.max().item<double>(), tokens) << width << " wide";
    }
}

// --- attention

// On the GPU that cuDNN serves most on; others take ATen's attention for some.
CudnnAttention backward_part(const AttentionShape& shape) {
  const int64_t d = shape.options.head_dim;
  const Type q{{shape.b, shape.t, shape.h * d}, Dtype::bfloat16},
      k{{shape.b, shape.t, shape.g * d}, Dtype::bfloat16};
  const AttentionAttrs attrs{shape.options, shape.segments.defined()};
  EXPECT_TRUE(cudnn_serves(attrs, q, k, CudnnPass::backward, 90)) << attention_case(shape).name;
  return cudnn_backward(attrs, q, k);
}

TEST_F(CudaOps, AttentionAgreesAtTheEdgesOfCudnnsTiles) {
  const AttentionShape shapes[]{
      {2, 2, 2, 2, {.head_dim = 64}},
      {1, 64, 4, 2, {.head_dim = 128}},
      {1, 127, 3, 3, {.head_dim = 128, .scale = 0.2}},
      {2, 128, 4, 1, {.head_dim = 64, .window = 30}},
      {1, 129, 8, 2, {.head_dim = 64, .window = 64}},
      {1, 192, 2, 1, {.head_dim = 96, .window = 65}},
      {3, 333, 6, 2, {.head_dim = 128, .window = 100}},
      {1, 1000, 4, 4, {.head_dim = 8}},
      {2, 1025, 4, 2, {.head_dim = 120, .window = 1024}},
      {1, 300, 4, 2, {.head_dim = 256}},
      {2, 257, 4, 4, {.head_dim = 192, .window = 100}},
      {2, 2, 2, 1, {.head_dim = 64, .soft_cap = 2}},
      {1, 385, 4, 2, {.head_dim = 256, .scale = 0.3, .soft_cap = 3}},
      {1, 385, 4, 2, {.head_dim = 256, .window = 129, .soft_cap = 3}},
      {2, 333, 4, 2, {.head_dim = 128}, segments_of(2, 333, {1, 126, 200})},
      {2, 512, 4, 1, {.head_dim = 64, .window = 70}, segments_of(2, 512, {300, 1, 2})},
      {2,
       400,
       2,
       1,
       {.head_dim = 256, .window = 33, .soft_cap = 3},
       segments_of(2, 400, {150, 99})},
  };
  std::vector<OpCase> cases;
  for (const AttentionShape& shape : shapes) {
    backward_part(shape);
    cases.push_back(attention_case(shape));
  }
  compare_cases(cases, Dtype::bfloat16);
}

// On Hopper, cuDNN's gradients of scores that are all low can be NaN where a mask is added and the
// last tile of keys is half empty (https://github.com/pytorch/pytorch/issues/196678).
TEST_F(CudaOps, AttentionGradientsOfLowScoresAreFinite) {
  const AttentionShape shape{2, 192, 4, 2, {.head_dim = 128}, segments_of(2, 192, {100, 30})};
  backward_part(shape);
  const OpCase op_case = attention_case(shape);
  const Program program = op_case.trace(Dtype::bfloat16);
  Tensors values = random_inputs(program, op_case, 500);
  values.at("q").mul_(0.1).add_(3);
  values.at("k").mul_(0.1).add_(-3);  // scores are about -9·128/√128 = -102
  for (const auto& [name, cotangent] : random_cotangents(program, 600))
    values[name + ".grad"] = cotangent;
  for (const Program& pass : {program, differentiate(program).program})
    for (const Node& node : pass.nodes) {
      std::vector<at::Tensor> in;
      for (ValueId id : node.in) in.push_back(values.at(pass[id].name));
      const std::vector<at::Tensor> out = run_own(pass, node, in);
      for (size_t k = 0; k < out.size(); ++k) {
        EXPECT_TRUE(out[k].isfinite().all().item<bool>())
            << "output " << k << " of " << text(pass, node);
        values[pass[node.out[k]].name] = out[k];
      }
    }
}

const AttentionShape kRowAfterRow{3, 2048, 32, 8, {.head_dim = 64}},
    kSomeHeadsOfARow{1, 2048, 128, 32, {.head_dim = 64, .window = 600}};

TEST(CudaAttention, GradientsOfTheseComeInParts) {  // also without a GPU
  const CudnnAttention row = backward_part(kRowAfterRow);
  EXPECT_EQ(row.rows * row.key_heads, 8);
  const CudnnAttention heads = backward_part(kSomeHeadsOfARow);
  EXPECT_EQ(heads.rows * heads.key_heads, 16);
}

TEST_F(CudaOps, AttentionGradientsComeInParts) {
  for (const AttentionShape& shape : {kRowAfterRow, kSomeHeadsOfARow}) {
    const OpCase op_case = attention_case(shape);
    SCOPED_TRACE(op_case.name);
    const Program program = op_case.trace(Dtype::bfloat16);
    Tensors values = compare_with_composed(program, random_inputs(program, op_case, 500));
    for (const auto& [name, cotangent] : random_cotangents(program, 600))
      values[name + ".grad"] = cotangent;
    compare_with_composed(differentiate(program).program, values);
  }
}

// --- updates in all formats

// Products with these numbers are exact, as are the sums of eight bits that the test has: all
// kernels compute the same numbers, and may differ in no bit of what they round.
std::vector<Optimizer> exact_optimizers() {
  return {adamw({.b1 = 0.5, .b2 = 0.5, .epsilon = 1e-8, .weight_decay = 0.1}),
          lion({.b1 = 0.5, .b2 = 0.5, .weight_decay = 0.1}),
          sgd({.momentum = 0.5, .weight_decay = 0}),
          sgd({.momentum = 0.5, .weight_decay = 0, .nesterov = true})};
}

class CudaUpdates : public CudaOps {
 protected:
  void expect_rounds_as_the_cpu(const Optimizer& optimizer, const UpdateFormats& formats,
                                int64_t count) {
    const Program program = update_program(
        optimizer, formats, count, {.seed = 0x123456789abcdef, .sequence = 7, .first = 192});
    const Node& node = program.nodes[0];
    SCOPED_TRACE(text(program, node));
    std::map<std::string, at::Tensor> state;
    for (ValueId id : node.in) {
      const Type& type = program[id].type;
      std::vector<int64_t> sizes;
      if (type.shape.rank() == 1) sizes.push_back(type.shape[0]);
      state[program[id].name] = at::zeros(sizes, scalar_type(type.dtype));
    }
    state["weight"] = random_normal({{count}, formats.weight}, 20);
    for (int step = 1; step <= 6; ++step) {
      state["gradient"] =
          (random_normal({{count}}, 30 + step) * random_normal({{count}}, 60 + step).mul(4).exp2())
              .to(at::kBFloat16)
              .to(at::kFloat);
      state["learning_rate"].fill_(0.01);
      for (size_t i = 0; i < optimizer.rule->scalars.size(); ++i)
        state[optimizer.rule->scalars[i]].fill_(optimizer.rule->scalar(optimizer.numbers, i, step));
      state["clip"].fill_(step == 4 ? 0. : 0.5);  // which updates nothing
      if (state.contains("step")) state["step"].fill_(step);
      std::vector<at::Tensor> in;
      for (ValueId id : node.in) in.push_back(state.at(program[id].name));
      const NodeRun cpu = run_node(program, node, in, Target::cpu);
      const std::vector<at::Tensor> own = run_own(program, node, in);
      const std::vector<at::Tensor> composed = run_composed(program, node, in);
      const size_t kept =
          1 + optimizer.rule->states.size() * (formats.states == StateFormat::block8 ? 2 : 1);
      for (size_t i = 1; i < kept; ++i) {
        EXPECT_TRUE(equal_bits(own[i], cpu.out[i])) << "output " << i << ", step " << step;
        EXPECT_TRUE(equal_bits(own[i], composed[i])) << "output " << i << ", step " << step;
      }
      if (formats.weight == Dtype::bfloat16) {
        at::Tensor apart = (own[0].view(at::kShort) - cpu.out[0].view(at::kShort)).abs();
        // Next to nothing is left of a weight that its update undoes: of that, bits differ.
        const at::Tensor is_seen = (own[0].to(at::kFloat) - cpu.out[0].to(at::kFloat)).abs() > 1e-6;
        EXPECT_LE(at::where(is_seen, apart, 0).max().item<int>(), 1);
        EXPECT_LE(apart.sum().item<int64_t>(), 1 + count / 100);
      } else {
        EXPECT_LE(difference(own[0], cpu.out[0]), 1e-6);
        EXPECT_TRUE(equal_bits(own.back(), own[0].to(at::kBFloat16)));
      }
      for (size_t i = 0; i < kept; ++i) state.at(program[node.in[i + 1]].name) = cpu.out[i];
    }
  }
};

TEST_F(CudaUpdates, RoundAsOnTheCpu) {
  for (const Optimizer& optimizer : exact_optimizers())
    for (int64_t count : {int64_t{1}, int64_t{255}, int64_t{70'001}, int64_t{1} << 20})
      for (StateFormat states : {StateFormat::float32, StateFormat::bfloat16, StateFormat::block8})
        for (Dtype weight : {Dtype::float32, Dtype::bfloat16})
          expect_rounds_as_the_cpu(optimizer, {weight, states}, count);
}

// --- sums

TEST_F(CudaOps, SquareSumIsExactEnoughForManyElements) {
  constexpr int64_t kCount = 20'000'003;
  Trace t("norm");
  t.output(square_sum(t.input("x", {{kCount}})));
  const Program program = t.finish();
  const at::Tensor x = at::arange(kCount, at::kFloat).remainder(1009).sub_(500);
  const at::Tensor found = run_own(program, program.nodes[0], {x})[0];
  EXPECT_EQ(found.item<double>(), x.to(at::kDouble).square().sum().item<double>());  // integers
}

}  // namespace
}  // namespace longshore::models
