// The shipped CPU kernels, and our own for GPUs as emulated on the CPU: their results against the
// reference kernels in float64, their memory, and whether they give the same bits again.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <set>

#include "longshore/base/error.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/onednn_matmul.h"
#include "longshore/models/ops/rope/rope.h"
#include "tests/models/harness.h"
#include "tests/models/op_cases.h"
#include "tests/models/op_records.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

constexpr uint64_t kInputs = 500, kCotangents = 600, kSums = 700;

// What running cases has shown.
struct Survey {
  KernelChoice kernels = Target::cpu;
  Checks checks = Checks::all;
  std::map<std::string, double> largest_difference;  // by op
  struct Workspace {
    const Op* op;
    int64_t declared_bytes, touched_bytes;
  };
  std::vector<Workspace> workspaces;
};

// What is declared is used, as far as the op's record says that this is seen.
void expect_used(const Survey::Workspace& workspace) {
  const auto& [op, declared_bytes, touched_bytes] = workspace;
  const WorkspaceUse use = traits_of(*op).workspace;
  int64_t least = 0;
  if (use == WorkspaceUse::all) least = declared_bytes;
  if (use == WorkspaceUse::most && declared_bytes > (1 << 20))
    least = declared_bytes - declared_bytes / 16;
  EXPECT_GE(touched_bytes, least) << op->name << " declares " << declared_bytes
                                  << " bytes of workspace";
}

// A program, forward or backward, and the same one in float64.
struct Twin {
  const Program& narrow;
  const Program& wide;
};

// Runs the surveyed kernels of every node, each on what those before it made, and the reference
// kernel in float64 on the same numbers. Returns all values.
Tensors compare(const Twin& twin, Tensors values, Dtype dtype, Survey& survey) {
  EXPECT_EQ(twin.narrow.nodes.size(), twin.wide.nodes.size());
  for (size_t i = 0; i < twin.narrow.nodes.size(); ++i) {
    const Node &node = twin.narrow.nodes[i], &wide = twin.wide.nodes[i];
    std::vector<at::Tensor> in, wide_in;
    for (size_t k = 0; k < node.in.size(); ++k) {
      in.push_back(values.at(twin.narrow[node.in[k]].name));
      wide_in.push_back(in.back().to(scalar_type(twin.wide[wide.in[k]].type.dtype)));
    }
    NodeRun found = run_node(twin.narrow, node, in, survey.kernels, survey.checks);
    NodeRun expected = run_node(twin.wide, wide, wide_in, Target::reference);
    // Emulated, libraries' parts have what ATen allocates on the CPU, not their workspace.
    if (survey.kernels.is_of(Target::cpu) || traits_of(*node.op).workspace != WorkspaceUse::most)
      survey.workspaces.push_back(
          {node.op, found.workspace_declared_bytes, found.workspace_touched_bytes});
    for (size_t k = 0; k < node.out.size(); ++k) {
      const std::string& name = twin.narrow[node.out[k]].name;
      values[name] = found.out[k];
      if (k >= expected.out.size()) continue;  // AdamW's copy in bfloat16: see update_test.cpp
      double error = difference(found.out[k], expected.out[k]);
      EXPECT_LE(error, tolerance_of(*node.op).of(dtype))
          << "output " << k << " of " << text(twin.narrow, node);
      double& largest = survey.largest_difference[node.op->name];
      largest = std::max(largest, error);
    }
  }
  return values;
}

void compare_case(const OpCase& op_case, Dtype dtype, Survey& survey) {
  SCOPED_TRACE(op_case.name + " in " + name(dtype));
  Program narrow = op_case.trace(dtype), wide = op_case.trace(Dtype::float64);
  Tensors values = compare({narrow, wide}, random_inputs(narrow, op_case, kInputs), dtype, survey);
  if (!op_case.plain) return;

  // The gradients, once alone and once added to what is there.
  std::vector<ValueId> weights = narrow.inputs_from(Source::weight);
  for (const std::vector<ValueId>& accumulate : {std::vector<ValueId>{}, weights}) {
    BackwardProgram backward = differentiate(narrow, accumulate);
    Tensors known = values;
    for (const auto& [name, cotangent] : random_cotangents(narrow, kCotangents))
      known[name + ".grad"] = cotangent;
    for (ValueId id : backward.program.inputs_from(Source::accumulator))
      known[backward.program[id].name] = random_normal(backward.program[id].type, kSums + id.index);
    BackwardProgram wide_backward = differentiate(wide, accumulate);
    compare({backward.program, wide_backward.program}, known, dtype, survey);
    if (weights.empty()) break;
  }
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases = small_cases();
  for (OpCase& op_case : large_cases()) cases.push_back(std::move(op_case));
  return cases;
}

bool has_custom_kernels(const Program& program) {
  return std::ranges::any_of(program.nodes, [](const Node& node) {
    return emulated_kernel(*node.op, Emulated::by_32).run != nullptr;
  });
}

// Or something of it, forward or backward.
bool emulates(const OpCase& op_case) {
  Program program = op_case.trace(Dtype::float32);
  return has_custom_kernels(program) ||
         (op_case.plain && has_custom_kernels(differentiate(program).program));
}

void compare_cases(Dtype dtype, const KernelChoice& kernels = Target::cpu,
                   Checks checks = Checks::all) {
  Survey survey{.kernels = kernels, .checks = checks};
  for (const OpCase& op_case : all_cases())
    if (kernels.is_of(Target::cpu) || emulates(op_case)) compare_case(op_case, dtype, survey);
  for (const auto& [op, error] : survey.largest_difference)
    std::cout << op << ": largest difference " << error << "\n";
  for (const Survey::Workspace& workspace : survey.workspaces) expect_used(workspace);
}

TEST(CpuKernels, AgreeWithTheReferenceInFloat32) { compare_cases(Dtype::float32); }
TEST(CpuKernels, AgreeWithTheReferenceInBfloat16) {
  if (!multiplies_bfloat16()) GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  compare_cases(Dtype::bfloat16);
}

class EmulatedKernels : public testing::TestWithParam<Emulated> {};

// Fibers take their time, and show faults of order at the first run.
Checks checks_of(Emulated emulated) {
  return emulated == Emulated::ahead || emulated == Emulated::behind ? Checks::memory : Checks::all;
}

// An order is the same in both.
TEST_P(EmulatedKernels, AgreeWithTheReferenceInFloat32) {
  if (GetParam() == Emulated::behind) GTEST_SKIP() << "done in bfloat16";
  compare_cases(Dtype::float32, GetParam(), checks_of(GetParam()));
}
TEST_P(EmulatedKernels, AgreeWithTheReferenceInBfloat16) {
  if (GetParam() == Emulated::ahead) GTEST_SKIP() << "done in float32";
  if (!multiplies_bfloat16()) GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  compare_cases(Dtype::bfloat16, GetParam(), checks_of(GetParam()));
}

constexpr Emulated kAllEmulated[]{Emulated::by_32, Emulated::by_256, Emulated::ahead,
                                  Emulated::behind};
constexpr const char* kEmulatedNames[]{"32Threads", "256Threads", "FibersAhead", "FibersBehind"};

INSTANTIATE_TEST_SUITE_P(By, EmulatedKernels, testing::ValuesIn(kAllEmulated),
                         [](const auto& info) {
                           return kEmulatedNames[static_cast<int>(info.param)];
                         });

// Gradients of logits are there for more tokens than logits are.
TEST(EmulatedCrossEntropy, GoesThroughGroupsOfChunks) {
  if (!multiplies_bfloat16()) GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  Survey survey{.kernels = Emulated::by_256, .checks = Checks::memory};
  int found = 0;
  for (const OpCase& op_case : real_cases())
    if (op_case.name == "linear_cross_entropy 1 1600 16 40000") {
      compare_case(op_case, Dtype::bfloat16, survey);
      ++found;
    }
  EXPECT_EQ(found, 1);
}

// Threads may be told to be fewer or more at any time; what was prepared for another number of
// them must still do.
TEST(CpuKernels, FollowTheNumberOfThreads) {
  const std::set<std::string> large{"linear 1 3 33 17",
                                    "linear 1 700 256 300",
                                    "rms_norm 2 257 320",
                                    "attention 1 129 3 1 40",
                                    "embedding 2 300 40 33 -1",
                                    "square_sum 300001",
                                    "rms_norm, shared 3 41 100",
                                    "linear_cross_entropy 3 300 48 5000",
                                    "rms_norm, heads 2 67 6 40",
                                    "add_bias 1 63 33",
                                    "cached_attention 1 1 8 2 700 650 64 0 0",
                                    "cached_attention 2 77 6 2 500 300 80 130 0",
                                    "attention 2 700 2 1 40, segments",
                                    "attention 3 700 4 2 64, sinks"};
  int threads = omp_get_max_threads(), found = 0;
  Survey survey;
  for (int count : {1, 3, 2}) {
    omp_set_num_threads(count);
    SCOPED_TRACE(std::to_string(count) + " threads");
    for (const OpCase& op_case : all_cases()) {
      if (!large.contains(op_case.name)) continue;
      ++found;
      compare_case(op_case, Dtype::float32, survey);
      if (multiplies_bfloat16()) compare_case(op_case, Dtype::bfloat16, survey);
    }
  }
  omp_set_num_threads(threads);
  EXPECT_EQ(found, 3 * std::ssize(large)) << "a case was renamed";
}

// Reference kernels are what a plan may run too: they obey the same rules.
TEST(ReferenceKernels, StayInTheirMemoryAndRepeat) {
  for (const OpCase& op_case : small_cases())
    for (Dtype dtype : {Dtype::float64, Dtype::float32, Dtype::bfloat16}) {
      SCOPED_TRACE(op_case.name + " in " + name(dtype));
      Program program = op_case.trace(dtype);
      Tensors inputs = random_inputs(program, op_case, kInputs);
      if (!op_case.plain) {
        run_program(program, inputs, Target::reference, Checks::all);
        continue;
      }
      BackwardProgram backward = differentiate(program, program.inputs_from(Source::weight));
      Tensors sums;
      for (const auto& [weight, sum] : backward.accumulators)
        sums[program[weight].name] = random_normal(backward.program[sum].type, kSums);
      run_step(program, backward, inputs, random_cotangents(program, kCotangents), sums,
               Target::reference, Checks::all);
    }
}

TEST(OneDnnMatmul, RefusesAnUnsupportedProductEachTime) {
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_THROW(workspace_bytes(Matmul{.m = 4, .n = 3, .k = 2, .ab = Dtype::float64}),
                 InternalError)
        << attempt;
}

TEST(RopeTable, RefusesOddHeads) {
  Trace t("odd");
  EXPECT_THROW(rope_table(t.batch("positions", {{1, 2}, Dtype::int32}), 5, 100), InternalError);
}

TEST(AllOps, HaveACaseAndEveryKernel) {
  std::set<std::string> cased, listed;
  for (const OpCase& op_case : all_cases()) {
    Program program = op_case.trace(Dtype::float32);
    for (const Node& node : program.nodes) cased.insert(node.op->name);
    if (!op_case.plain) continue;
    for (const Node& node : differentiate(program).program.nodes) cased.insert(node.op->name);
  }
  for (const Op* op : all_ops()) {
    EXPECT_TRUE(listed.insert(op->name).second) << op->name << " is listed twice";
    EXPECT_TRUE(cased.contains(op->name)) << op->name << " has no test case";
    EXPECT_TRUE(op->infer && op->cost && op->cpu.run && op->reference.run) << op->name;
    // Our custom kernels, cuBLASLt's products and cuDNN's attention are there where CUDA was.
    const bool is_own = op->cuda_composed.run;
    EXPECT_EQ(op->cuda.run != nullptr, !is_own || kHasOwnCudaKernels) << op->name;
    EXPECT_TRUE(op->has_kernel(Target::cuda) && op->kernel(Target::cuda_composed).run) << op->name;
    for (Emulated emulated : kAllEmulated)
      EXPECT_EQ(emulated_kernel(*op, emulated).run != nullptr, is_own) << op->name;
  }
  for (const std::string& op : cased) EXPECT_TRUE(listed.contains(op)) << op << " is not listed";
}

}  // namespace
}  // namespace longshore::models
