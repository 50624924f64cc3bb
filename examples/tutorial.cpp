// JAX's tutorial "JAX Memories and Host Offloading", section by section. Its numbers are beside
// ours, as far as it prints any; memory is MiB on the device.
#include <longshore/models/ir/add.h>
#include <longshore/models/ir/put.h>
#include <longshore/models/ir/stages.h>
#include <longshore/models/ir/trace.h>
#include <longshore/models/ops/gelu.h>
#include <longshore/models/ops/linear/linear.h>
#include <longshore/models/ops/mean_square_error.h>
#include <longshore/models/ops/sum.h>
#include <longshore/offload/backends/cpu_backend.h>
#include <longshore/offload/execution/function.h>
#include <longshore/offload/execution/value_and_grad.h>
#include <longshore/trainer/step/trainer.h>

#include <cstdio>

using namespace longshore;
using models::Init, models::Model, models::Program, models::StageInput, models::Trace, models::Var;
using offload::Action, offload::Axis, offload::Function, offload::MemoryAnalysis;
using offload::MemoryKind, offload::Placement, offload::Policy, offload::Runtime, offload::Tensor;

namespace {

constexpr MemoryKind kDevice = MemoryKind::device, kHost = MemoryKind::pinned_host;

// A sharding with a memory kind, and the same in host memory: s_dev and s_host.
const Placement kOnDevice{.split = {Axis::data, Axis::fsdp}};
const Placement kOnHost = kOnDevice.with_memory_kind(kHost);

void placements() {
  std::printf("# NamedSharding and memory kinds\n%s\n%s\n", text(kOnDevice).c_str(),
              text(kOnHost).c_str());
}

const std::vector<float> kNumbers{0, 1, 2, 3, 4, 5, 6, 7};

void print(const char* what, const Tensor& tensor) {
  std::printf("%s:", what);
  for (float value : values(tensor)) std::printf(" %g", value);
  std::printf(", in %s\n", name(tensor.placement().kind));
}

void put_data(Runtime& runtime) {
  std::printf("\n# Data placement with put\n");
  const Tensor on_host = make_tensor(runtime, {2, 4}, kNumbers, kOnHost);
  const Tensor on_device = put(on_host, kOnDevice);
  print("on_host", on_host);
  print("on_device", on_device);
}

// x + 1, on the device, where x is brought if it is not there: no op takes two kinds of memory.
Program add_one() {
  Trace t("add_one");
  Var x = put(t.input("x", {{2, 4}}), kDevice), one = t.input("one", {{2, 4}});
  t.output(models::add(x, one));
  return t.finish();
}

void place_outputs(Runtime& runtime) {
  std::printf("\n# Output sharding controls\n");
  const Tensor x = make_tensor(runtime, {2, 4}, kNumbers, kOnHost);
  const Tensor one = make_tensor(runtime, {2, 4}, std::vector<float>(8, 1), kOnDevice);
  for (const Placement& to : {kOnDevice, kOnHost}) {
    Function f(runtime, add_one(), {.inputs = {kOnHost, kOnDevice}, .outputs = {to}});
    print("x + 1", f({x, one})[0]);
  }
  // Donated, the memory of `one` becomes the result's.
  Function f(runtime, add_one(),
             {.inputs = {kOnHost, kOnDevice}, .outputs = {kOnDevice}, .donated = {1}});
  const Tensor sum = f({x, one})[0];
  std::printf("donated: the result is %s; alias %lld bytes\n",
              sum.memory() == one.memory() ? "the input's memory" : "memory of its own",
              static_cast<long long>(f.memory_analysis(kDevice).alias_bytes));
}

// Ten layers of x·w1·w2, and the sum of what the last one gives. What policies may speak of has
// labels: checkpoint_name.
Model two_layers_ten_times() {
  constexpr int64_t kWidth = 256, kInner = 1024;
  const models::Weight small{.init = {Init::Kind::normal, 0.001}};
  Trace input("input");
  input.output(input.batch("x", {{kWidth, kWidth}}));

  Trace layer("layer");
  Var x = layer.label(layer.input("x", {{kWidth, kWidth}}), "x");
  Var y = layer.label(linear(x, layer.weight("w1", {{kInner, kWidth}}, small)), "y");
  layer.output(linear(y, layer.weight("w2", {{kWidth, kInner}}, small)));

  Trace loss("loss");
  loss.output(models::sum(loss.input("x", {{kWidth, kWidth}})), models::OutputRole::loss);
  return models::connected("network", {models::run_once(input.finish()),
                                       models::scan("layers", layer.finish(), 10, {{0, 0}}),
                                       models::run_once(loss.finish(), {{1, 0}})});
}

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

void print(const char* what, const MemoryAnalysis& memory, const char* jax) {
  std::printf("%-44s %6.2f %8.2f %6.2f %6.2f   %s\n", what, mib(memory.temp_bytes),
              mib(memory.argument_bytes), mib(memory.output_bytes), mib(memory.total_bytes()), jax);
}

void offload_activations_and_parameters(Runtime& runtime) {
  std::printf("\n# Activation and parameter offloading\n%-44s %6s %8s %6s %6s   %s\n", "", "temp",
              "argument", "output", "total", "JAX: temp, total");
  const Model model = two_layers_ten_times();
  // save_and_offload_only_these_names: x goes to the host, y is computed again.
  const Policy x_away{
      .name = "x_away", .otherwise = Action::remat, .actions = {{"x", Action::offload}}};
  std::vector<float> first;
  auto run = [&](const char* what, const offload::ValueAndGradOptions& options, const char* jax) {
    offload::ValueAndGrad f(runtime, model, options);
    f.set_batch("x", std::vector<float>(256 * 256, 0.001f));
    for (int layer = 0; layer < 10; ++layer)
      for (const char* weight : {".w1", ".w2"})
        f.set_parameter("layers." + std::to_string(layer) + weight,
                        std::vector<float>(256 * 1024, 0.001f));
    f();
    const std::vector<float> gradient = f.gradient("layers.0.w1");
    if (first.empty()) first = gradient;
    print(what, f.memory_analysis(kDevice), jax);
    if (gradient != first) std::printf("the gradients differ\n");
  };
  run("all on the device", {}, "17.25, 57.50");
  run("x in host memory", {.policy = x_away}, "6.50, 46.75");
  run("x and parameters in host memory",
      {.policy = x_away, .homes = {.parameters = kHost}, .transfers = {.prefetch_layers = 0.5}},
      "4.75, 25.00");
  run("x, parameters and gradients in host memory",
      {.policy = x_away,
       .homes = {.parameters = kHost, .gradients = kHost},
       .transfers = {.prefetch_layers = 0}},
      "");
}

// The last section's network, smaller: layers of gelu(x·Wᵀ) that give their
// input back.
Model gelu_layers() {
  constexpr int64_t kWidth = 256;
  Trace input("input");
  input.output(input.batch("x", {{kWidth, kWidth}}));
  Trace layer("layer");
  Var x = layer.label(layer.input("x", {{kWidth, kWidth}}), "x");
  Var w = layer.weight("w", {{kWidth, kWidth}}, {.init = {Init::Kind::normal, 1.0 / 16}});
  layer.output(gelu(linear(x, w)));
  Trace loss("loss");
  Var y = loss.input("y", {{kWidth, kWidth}});
  loss.output(mean_square_error(y, loss.batch("x", y.type())), models::OutputRole::loss);
  return models::connected("gelu_layers", {models::run_once(input.finish()),
                                           models::scan("layers", layer.finish(), 4, {{0, 0}}),
                                           models::run_once(loss.finish(), {{1, 0}})});
}

void offload_optimizer_states(Runtime& runtime) {
  std::printf("\n# Optimizer state offloading\n%-44s %6s %8s %6s %6s   %s\n", "", "temp",
              "argument", "output", "total", "loss after five steps");
  const Model model = gelu_layers();
  std::vector<float> x(256 * 256);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) / 17;
  auto run = [&](const char* what, const offload::Homes& homes) {
    trainer::Trainer trainer(runtime, model,
                             {.homes = homes,
                              .transfers = {.prefetch_layers = 0.25},
                              .optimizer = models::adamw({.b1 = 0.9, .b2 = 0.999, .epsilon = 1e-8}),
                              .clipping_threshold = 1,
                              .seed = 1});
    trainer.set_batch("x", x);
    double loss = 0;
    for (int step = 0; step < 5; ++step) loss = trainer.step(1e-3).loss;
    char loss_text[16];
    std::snprintf(loss_text, sizeof loss_text, "%.6f", loss);
    print(what, trainer.memory_analysis(kDevice), loss_text);
  };
  run("all on the device", {});
  run("Adam's moments in host memory", {.optimizer = kHost});
}

}  // namespace

int main() {
  Runtime runtime{offload::make_cpu_backend()};
  placements();
  put_data(runtime);
  place_outputs(runtime);
  offload_activations_and_parameters(runtime);
  offload_optimizer_states(runtime);
}
