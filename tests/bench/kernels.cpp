// bench_kernels [--json F]
//
// Our custom kernels on a GPU, cuBLASLt's products and cuDNN's attention, at Llama 3 8B's shapes
// with 8192 tokens (norms of heads at Qwen 3 8B's): what each takes, what that makes of its
// operands' bytes and its FLOPs a second, and the part of the roofline that it reaches: the lesser
// of what a copy within the device (each byte counts as read and as written) and a product of
// 8192x8192x8192 by ATen reach in the same run. Beside it ATen's ops that the kernel stands for.
// The two take turns; medians.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/exit_code.h"
#include "longshore/base/timing.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/add_bias/add_bias.h"
#include "longshore/models/ops/attention/attention.h"
#include "longshore/models/ops/dequantize/dequantize.h"
#include "longshore/models/ops/embedding/embedding.h"
#include "longshore/models/ops/gelu.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/models/ops/rms_norm/rms_norm.h"
#include "longshore/models/ops/rope/rope.h"
#include "longshore/models/ops/soft_cap.h"
#include "longshore/models/ops/square_sum/square_sum.h"
#include "longshore/models/ops/swiglu.h"
#include "longshore/models/ops/update/adamw.h"
#include "longshore/offload/backends/cuda/cuda_backend.h"
#include "longshore/offload/backends/cuda/cuda_device.h"
#include "longshore/offload/execution/arenas.h"
#include "tests/bench/gpu_stopwatch.h"
#include "tests/models/update_program.h"

namespace longshore::bench {
namespace {

using models::Dtype;
using models::Node;
using models::Program;
using models::StateFormat;
using models::Target;
using models::Trace;
using models::Type;
using models::Var;
using offload::Arena;
using offload::Backend;
using offload::Lane;
using offload::MemoryKind;

constexpr int64_t kTokens = 8192, kWidth = 4096, kHidden = 14336, kVocabulary = 128256;
constexpr int64_t kHeads = 32, kKeyHeads = 8, kHeadDim = 128;
constexpr int64_t kLayer = 218'112'000;  // parameters

// --- what is measured

struct Case {
  std::string name;
  Program program;
};

Type hidden(int64_t width, Dtype dtype = Dtype::bfloat16) { return {{1, kTokens, width}, dtype}; }
Type tokens() { return {{1, kTokens}, Dtype::int32}; }
Type weight(models::Shape shape) { return {shape, Dtype::bfloat16}; }

// The program and its gradient, each of whose weights adds to a sum.
void add(std::vector<Case>& cases, const std::string& name, Trace& t) {
  Program program = t.finish();
  cases.push_back({name, program});
  cases.push_back(
      {name, models::backward(program, {.accumulate = program.inputs_from(models::Source::weight),
                                        .weight_gradient_dtype = Dtype::float32})
                 .program});
}

void add_attention(std::vector<Case>& cases, const std::string& name, int64_t heads,
                   int64_t key_heads, const models::AttentionOptions& options,
                   bool is_packed = false, Dtype dtype = Dtype::bfloat16) {
  Trace t("attention");
  const Type keys = hidden(key_heads * options.head_dim, dtype);
  Var segments;
  if (is_packed) segments = t.batch("segments", tokens());
  t.output(attention(t.input("q", hidden(heads * options.head_dim, dtype)), t.input("k", keys),
                     t.input("v", keys), options, {.segments = segments}));
  add(cases, name, t);
}

void add_update(std::vector<Case>& cases, const std::string& name, Dtype dtype,
                StateFormat states) {
  const models::Optimizer optimizer =
      models::adamw({.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1});
  cases.push_back(
      {name, models::update_program(optimizer, {.weight = dtype, .states = states}, kLayer)});
}

std::vector<Case> make_cases() {
  std::vector<Case> cases;
  {
    Trace t("rms_norm");
    t.output(rms_norm(t.input("x", hidden(kWidth)), t.weight("w", weight({kWidth}), {}), 1e-5));
    add(cases, "4096 wide", t);
  }
  {
    Trace t("rms_norm");
    t.output(rms_norm(t.input("q", hidden(kHeads * kHeadDim)),
                      t.weight("w", weight({kHeadDim}), {}), 1e-5));
    add(cases, "32 heads of 128", t);
  }
  for (int64_t heads : {kHeads, kKeyHeads}) {
    Trace t("rope");
    models::RopeTable table = rope_table(t.batch("positions", tokens()), kHeadDim, 500000);
    t.output(rope(t.input("x", hidden(heads * kHeadDim)), table));
    add(cases, fmt::format("{} heads of 128", heads), t);
  }
  for (auto gated : {models::swiglu, models::geglu}) {
    Trace t("gated");
    t.output(gated(t.input("gate", hidden(kHidden)), t.input("up", hidden(kHidden))));
    add(cases, "14336 wide", t);
  }
  {
    Trace t("activations");
    Var x = t.input("x", hidden(kHidden));
    t.output(gelu(x));
    t.output(soft_cap(x, 30));
    add(cases, "14336 wide", t);
  }
  {
    Trace t("add_bias");
    t.output(add_bias(t.input("x", hidden(kWidth)), t.weight("b", weight({kWidth}), {})));
    add(cases, "4096 wide", t);
  }
  {
    Trace t("embedding");
    t.output(embedding(t.batch("ids", tokens()), t.weight("w", weight({kVocabulary, kWidth}), {})));
    add(cases, "128256 of 4096", t);
  }
  add_attention(cases, "32 on 8 heads", kHeads, kKeyHeads, {.head_dim = kHeadDim});
  add_attention(cases, "32 on 8 heads, any order", kHeads, kKeyHeads,
                {.head_dim = kHeadDim, .deterministic = false});
  add_attention(cases, "32 on 8 heads, window 4096", kHeads, kKeyHeads,
                {.head_dim = kHeadDim, .window = 4096});
  add_attention(cases, "32 on 8 heads, window 1024", kHeads, kKeyHeads,
                {.head_dim = kHeadDim, .window = 1024});
  add_attention(cases, "32 on 8 heads, packed", kHeads, kKeyHeads, {.head_dim = kHeadDim}, true);
  add_attention(cases, "32 on 8 heads, f32", kHeads, kKeyHeads, {.head_dim = kHeadDim}, false,
                Dtype::float32);
  add_attention(cases, "16 on 8 heads of 256, window 1024", 16, 8,
                {.head_dim = 256, .window = 1024});
  add_attention(cases, "16 on 8 heads of 256, capped", 16, 8, {.head_dim = 256, .soft_cap = 50});
  add_attention(cases, "16 on 2 heads of 512", 16, 2, {.head_dim = 512});
  for (auto [in, out] : {std::pair{kWidth, kWidth},
                         {kWidth, kKeyHeads * kHeadDim},
                         {kWidth, kHidden},
                         {kHidden, kWidth}}) {
    Trace t("linear");
    t.output(linear(t.input("x", hidden(in)), t.weight("w", weight({out, in}), {})));
    add(cases, fmt::format("{} to {}", in, out), t);
  }
  {
    Trace t("residual");
    t.output(linear(t.input("x", hidden(kWidth)), t.weight("w", weight({kWidth, kWidth}), {}),
                    t.input("sum", hidden(kWidth))));
    cases.push_back({"4096 to 4096, and a sum", t.finish()});
  }
  {
    Trace t("loss");
    t.output(linear_cross_entropy(t.input("x", hidden(kWidth)),
                                  t.weight("w", weight({kVocabulary, kWidth}), {}),
                                  t.batch("targets", tokens())),
             models::OutputRole::loss);
    add(cases, "128256 of 4096", t);
  }
  for (QuantizedFormat format : {QuantizedFormat::nf4, QuantizedFormat::mxfp4,
                                 QuantizedFormat::int8, QuantizedFormat::fp8}) {
    const models::QuantizedWeight stored{
        .matrix = {.format = format,
                   .rows = kHidden,
                   .columns = kWidth,
                   .has_nested_scales = format == QuantizedFormat::nf4},
        .numbers = weight({kHidden, kWidth})};
    Trace t("dequantize");
    Var codes = t.weight("w", quantized_type(stored),
                         {.trainable = models::Trainable::no, .quantized = stored});
    t.output(dequantize(codes, stored));
    cases.push_back({fmt::format("14336 by 4096, {}", name(format)), t.finish()});
  }
  add_update(cases, "a layer, f32, moments f32", Dtype::float32, StateFormat::float32);
  add_update(cases, "a layer, f32, moments bf16", Dtype::float32, StateFormat::bfloat16);
  add_update(cases, "a layer, f32, moments 8 bits", Dtype::float32, StateFormat::block8);
  add_update(cases, "a layer, bf16, moments 8 bits", Dtype::bfloat16, StateFormat::block8);
  {
    Trace t("norm");
    t.output(square_sum(t.input("gradient", {{kLayer}})));
    cases.push_back({"a layer", t.finish()});
  }
  return cases;
}

// --- how

// Numbers of ordinary size in every float format, the same again where there are very many; ids
// with the few frequent ones of a text.
std::vector<std::byte> contents(const Type& type) {
  std::vector<std::byte> bytes(std::min(type.bytes(), int64_t{32} << 20));
  uint32_t state = 12345;
  auto random = [&] { return state = state * 1664525 + 1013904223; };
  if (type.dtype == Dtype::int32) {
    auto* ids = reinterpret_cast<int32_t*>(bytes.data());
    for (int64_t i = 0; i < type.shape.count(); ++i) {
      const double u = random() / 4294967296.;
      ids[i] = type.shape.rank() == 0 ? 1 : static_cast<int32_t>(u * u * u * (kVocabulary - 1));
    }
    return bytes;
  }
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    bytes[i] = static_cast<std::byte>(random() >> 24);
    bytes[i + 1] = type.dtype == Dtype::float64 ? std::byte{0x3f} : std::byte{0x3c};
  }
  return bytes;
}

// Bytes read and written a second.
double copy_rate(Stopwatch& stopwatch) {
  Backend& backend = stopwatch.backend();
  const Type type{{int64_t{1} << 30}, Dtype::uint8};
  Arena from(backend, MemoryKind::device, type.bytes()),
      to(backend, MemoryKind::device, type.bytes());
  const double seconds = stopwatch.median_seconds_of([&] {
    backend.copy(Lane::compute, {from.memory(), type}, {to.memory(), type});
  });
  return 2.0 * static_cast<double>(type.bytes()) / seconds;
}

struct Times {
  double own = 0, composed = 0;
};

// What the device reaches in this run.
struct Limits {
  double bytes_per_second, flops_per_second;
};

Times measure(Stopwatch& own, Stopwatch& composed, const Program& program, const Node& node) {
  const models::Types in = program.types(node.in), out = program.types(node.out);
  int64_t bytes = 0;
  for (Target target : {Target::cuda, Target::cuda_composed}) {
    const models::Kernel& kernel = node.op->kernel(target);
    if (kernel.workspace_bytes)
      bytes = std::max(bytes, kernel.workspace_bytes(node.attrs, in, out));
  }
  const Operands operands(own.backend(), program, node, contents);
  Arena workspace(own.backend(), MemoryKind::device, bytes);
  auto run_on = [&](Stopwatch& stopwatch) {
    return stopwatch.seconds_of([&] {
      operands.run(stopwatch.backend(), *node.op, {workspace.memory(), static_cast<size_t>(bytes)});
    });
  };
  constexpr double kEnough = 0.5;  // of what takes very long
  std::vector<double> own_seconds, composed_seconds;
  run_on(own);  // libraries load their kernels
  double composed_total = run_on(composed);
  for (int round = 0; round < kRounds; ++round) {
    own_seconds.push_back(run_on(own));
    if (round > 0 && composed_total > kEnough) continue;
    composed_seconds.push_back(run_on(composed));
    composed_total += composed_seconds.back();
  }
  return {median(own_seconds), median(composed_seconds)};
}

// A node's line of the table, and what of it goes into the file.
struct Row {
  std::string text;
  nlohmann::json json;
};

Row row(Stopwatch& own, Stopwatch& composed, const Program& program, const Node& node,
        const Limits& limits) {
  const models::Cost cost = program.cost(node);
  const Times times = measure(own, composed, program, node);
  // What is not made of products does its arithmetic while it waits for memory.
  const double flops = node.op->op_class == models::OpClass::memory ? 0 : cost.flops;
  const double roofline =
      std::max(cost.bytes / limits.bytes_per_second, flops / limits.flops_per_second) / times.own;
  const std::string teraflops = flops > 0 ? fmt::format("{:.1f}", flops / times.own / 1e12) : "-";
  return {
      .text = fmt::format("{:9.1f} {:9.1f} {:8.1f} {:>8} {:11.2f} {:10.1f} {:8.2f}",
                          cost.bytes / 1e6, times.own * 1e6, cost.bytes / times.own / 1e9,
                          teraflops, roofline, times.composed * 1e6, times.composed / times.own),
      .json = {{"bytes", cost.bytes},
               {"flops", flops},
               {"seconds", times.own},
               {"of_roofline", roofline},
               {"composed_seconds", times.composed}}};
}

void run(const std::string& json_file) {
  const offload::CudaDevice device = offload::find_cuda_device();
  if (!device.usable) throw Error("no GPU: " + device.description);
  const std::unique_ptr<Backend> cuda = offload::make_cuda_backend();
  const std::unique_ptr<Backend> cuda_composed =
      offload::make_cuda_backend(0, nullptr, Target::cuda_composed);
  Stopwatch own(*cuda), composed(*cuda_composed);
  const Limits limits{.bytes_per_second = copy_rate(own),
                      .flops_per_second = product_rate(composed, 8192, contents)};
  std::printf(
      "%s\na copy within the device: %.1f GB/s read and written; a product: %.1f TFLOP/s\n"
      "medians of %d\n\n",
      device.description.c_str(), limits.bytes_per_second / 1e9, limits.flops_per_second / 1e12,
      kRounds);
  std::printf("%-27s %-30s %9s %9s %8s %8s %11s %10s %8s\n", "", "", "MB", "us", "GB/s", "TFLOP/s",
              "of roofline", "composed", "quicker");
  nlohmann::json all{{"device", device.description},
                     {"copy_bytes_per_second", limits.bytes_per_second},
                     {"product_flops_per_second", limits.flops_per_second},
                     {"kernels", nlohmann::json::array()}};
  std::string failures;
  for (const Case& one : make_cases())
    for (const Node& node : one.program.nodes) {
      if (!node.op->cuda_composed.run) continue;
      nlohmann::json said{{"op", node.op->name}, {"case", one.name}};
      std::printf("%-27s %-30s ", node.op->name, one.name.c_str());
      std::fflush(stdout);
      try {
        const Row measured = row(own, composed, one.program, node, limits);
        std::printf("%s\n", measured.text.c_str());
        said.update(measured.json);
      } catch (const std::exception& error) {
        std::printf("failed: %s\n", error.what());
        said["failure"] = error.what();
        failures += fmt::format("\n{}, {}: {}", node.op->name, one.name, error.what());
      }
      all["kernels"].push_back(said);
      // Each time: what takes long may be stopped before its end.
      if (!json_file.empty()) write_file(json_file, all.dump(1) + "\n");
    }
  if (!failures.empty()) throw Error("failed:" + failures);
}

}  // namespace
}  // namespace longshore::bench

int main(int argc, char** argv) {
  using namespace longshore;
  std::string json_file;
  CLI::App app("Our own CUDA kernels against a device's memory and against ATen's",
               "bench_kernels");
  app.add_option("--json", json_file, "writes the table there as well");
  CLI11_PARSE(app, argc, argv);
  return exit_code_of("bench_kernels", [&] { bench::run(json_file); });
}
