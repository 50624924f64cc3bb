// bench_grouped [--rows N,N] [--experts N] [--width N] [--inner N] [--dense N] [--rounds N] [--json
// F]
//
// Products of experts' rows on a GPU in bfloat16, at the widths of Qwen 3 30B-A3B: a layer's gates
// (or ups) and downs and their gradients, by our own kernels and by ATen's grouped product, from
// few rows of each expert to many. Beside the FLOPs a second the part of what a dense product of
// 8192x8192x8192 reaches in the same run; with few rows, reading the weights is what takes the
// time. Medians.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/exit_code.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/grouped_linear/grouped_linear.h"
#include "longshore/models/ops/grouped_linear/grouped_linear_aten.h"
#include "longshore/models/ops/grouped_linear/grouped_linear_kernels.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/offload/backends/cuda/cuda_backend.h"
#include "longshore/offload/backends/cuda/cuda_device.h"
#include "tests/bench/gpu_stopwatch.h"

namespace longshore::bench {
namespace {

using models::Dtype;
using models::Kernel;
using models::Node;
using models::Op;
using models::Program;
using models::Type;
using offload::Arena;
using offload::Backend;
using offload::MemoryKind;

struct Options {
  std::vector<int64_t> rows{8, 16, 32, 64, 128, 256, 512, 1024};  // of each expert
  int64_t experts = 128, width = 2048, inner = 768, dense = 8192;
  int rounds = kRounds;
  std::string json_file;
};

// --- what is measured

// A product, and with it both of its gradients.
struct Case {
  std::string name;
  Program forward, backward;
};

Case make_case(const std::string& name, int64_t experts, int64_t rows, int64_t k, int64_t n) {
  models::Trace t(name);
  const models::Var x = t.input("x", {{experts * rows, k}, Dtype::bfloat16});
  const models::Var w = t.weight("w", {{experts, n, k}, Dtype::bfloat16}, {});
  t.output(grouped_linear(x, w, t.batch("ends", {{experts}, Dtype::int32})));
  Program program = t.finish();
  models::BackwardProgram backward =
      models::backward(program, {.accumulate = program.inputs_from(models::Source::weight),
                                 .weight_gradient_dtype = Dtype::float32});
  return {name, std::move(program), std::move(backward.program)};
}

// --- how

Op with_kernel(const Op& op, const Kernel& kernel) {
  Op other = op;
  other.cuda = kernel;
  return other;
}

// The op by our own kernel; by ATen's, where that has it.
struct Ways {
  Op own;
  std::optional<Op> aten;
};

template <models::GroupedRowsOf arguments>
Ways ways_of_rows(const Op& op) {
  using namespace models;
  return {with_kernel(op, {custom_kernel<launch_grouped_rows, arguments>()}),
          with_kernel(op, {kernel_of_parts<run_grouped_rows_by_aten, arguments>(),
                           op.cuda.workspace_bytes})};
}

Ways ways_of(const Op& op) {
  using namespace models;
  if (&op == &grouped_linear_op) return ways_of_rows<grouped_linear_arguments>(op);
  if (&op == &grouped_linear_input_grad_op)
    return ways_of_rows<grouped_linear_input_grad_arguments>(op);
  return {op, std::nullopt};
}

// Numbers of ordinary size; ends of as many rows for each expert.
std::vector<std::byte> contents(const Type& type, int64_t rows) {
  std::vector<std::byte> bytes(std::min(type.bytes(), int64_t{32} << 20));
  if (type.dtype == Dtype::int32) {
    for (int64_t e = 0; e < type.shape.count(); ++e) {
      const auto end = static_cast<int32_t>((e + 1) * rows);
      std::memcpy(bytes.data() + e * sizeof(end), &end, sizeof(end));
    }
    return bytes;
  }
  uint32_t state = 12345;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    bytes[i] = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
    bytes[i + 1] = std::byte{0x3c};
  }
  return bytes;
}

double seconds_by(Stopwatch& stopwatch, const Op& op, const Program& program, const Node& node,
                  const Operands& operands, int rounds) {
  const Kernel& kernel = op.cuda;
  const int64_t bytes =
      kernel.workspace_bytes
          ? kernel.workspace_bytes(node.attrs, program.types(node.in), program.types(node.out))
          : 0;
  const Arena workspace(stopwatch.backend(), MemoryKind::device, bytes);
  return stopwatch.median_seconds_of(
      [&] {
        operands.run(stopwatch.backend(), op, {workspace.memory(), static_cast<size_t>(bytes)});
      },
      rounds);
}

// Whether this GPU is one that ATen's product is for.
bool has_aten(const Options& options) {
  return models::aten_serves_here({.dtype = Dtype::bfloat16,
                                   .rows = 0,
                                   .n = options.inner,
                                   .k = options.width,
                                   .experts = options.experts,
                                   .a = nullptr,
                                   .b = nullptr,
                                   .b_layout = models::Layout::plain,
                                   .ends = nullptr,
                                   .so_far = nullptr,
                                   .c = nullptr});
}

void run(const Options& options) {
  const offload::CudaDevice device = offload::find_cuda_device();
  if (!device.usable) throw Error("no GPU: " + device.description);
  const std::unique_ptr<Backend> backend = offload::make_cuda_backend();
  Stopwatch stopwatch(*backend);
  const double dense = product_rate(
      stopwatch, options.dense, [](const Type& type) { return contents(type, 0); }, options.rounds);
  const bool is_atens = has_aten(options);
  std::printf(
      "%s\na dense product: %.1f TFLOP/s; %s\n\n", device.description.c_str(), dense / 1e12,
      is_atens ? "rows by weights are ATen's in steps" : "ATen's product is for other GPUs");
  std::printf("%-26s %-14s %5s %10s %8s %8s %10s %8s %8s\n", "", "", "rows", "own us", "TFLOP/s",
              "of dense", "ATen's us", "TFLOP/s", "of dense");
  nlohmann::json all{{"device", device.description},
                     {"dense_flops_per_second", dense},
                     {"steps_by", is_atens ? "aten" : "own"},
                     {"products", nlohmann::json::array()}};
  for (const int64_t rows : options.rows)
    for (const Case& one :
         {make_case("gates", options.experts, rows, options.width, options.inner),
          make_case("downs", options.experts, rows, options.inner, options.width)})
      for (const Program* program : {&one.forward, &one.backward})
        for (const Node& node : program->nodes) {
          const Operands operands(*backend, *program, node,
                                  [&](const Type& type) { return contents(type, rows); });
          const double flops = program->cost(node).flops;
          const Ways ways = ways_of(*node.op);
          nlohmann::json said{
              {"op", node.op->name}, {"case", one.name}, {"rows", rows}, {"flops", flops}};
          auto columns = [&](const Op& op, const char* who) {
            const double seconds =
                seconds_by(stopwatch, op, *program, node, operands, options.rounds);
            said[who] = {{"seconds", seconds}, {"of_dense", flops / seconds / dense}};
            return fmt::format(" {:10.1f} {:8.1f} {:6.1f} %", seconds * 1e6, flops / seconds / 1e12,
                               100 * flops / seconds / dense);
          };
          std::string line = fmt::format("{:26} {:14} {:5}", node.op->name, one.name, rows);
          line += columns(ways.own, "own");
          if (ways.aten && is_atens) line += columns(*ways.aten, "aten");
          std::printf("%s\n", line.c_str());
          std::fflush(stdout);
          all["products"].push_back(said);
          // Each time: what takes long may be stopped before its end.
          if (!options.json_file.empty()) write_file(options.json_file, all.dump(1) + "\n");
        }
}

}  // namespace
}  // namespace longshore::bench

int main(int argc, char** argv) {
  using namespace longshore;
  bench::Options options;
  CLI::App app("Products of experts' rows on a GPU: our own kernels and ATen's", "bench_grouped");
  app.add_option("--rows", options.rows, "of each expert")->delimiter(',');
  app.add_option("--experts", options.experts, "how many there are");
  app.add_option("--width", options.width, "of the model");
  app.add_option("--inner", options.inner, "of an expert");
  app.add_option("--dense", options.dense, "rows and columns of the dense product");
  app.add_option("--rounds", options.rounds, "of which medians are taken");
  app.add_option("--json", options.json_file, "writes the table there as well");
  CLI11_PARSE(app, argc, argv);
  return exit_code_of("bench_grouped", [&] { bench::run(options); });
}
