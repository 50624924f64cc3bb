// A policy of one's own: a table that says of each labelled value of a layer whether it stays on
// the device until the backward pass, waits in host memory, or is computed again.
#include <longshore/base/error.h>
#include <longshore/models/families/decoder.h>
#include <longshore/offload/backends/cpu_backend.h>
#include <longshore/offload/execution/value_and_grad.h>
#include <longshore/trainer/weights/initialize.h>

#include <cstdio>

using namespace longshore;
using offload::Action, offload::MemoryKind, offload::Policy;

// Attention is costly to compute again and its values are small: they stay. The MLP's are large:
// the gate waits in host memory, and what follows from it is computed again.
const Policy kMlpAway{.name = "mlp_away",
                      .otherwise = Action::remat,
                      .actions = {{"decoder_layer_input", Action::keep},
                                  {"query_proj", Action::keep},
                                  {"key_proj", Action::keep},
                                  {"value_proj", Action::keep},
                                  {"context", Action::keep},
                                  {"mlpwi_0", Action::offload}}};

int main() {
  const models::DecoderConfig config{.batch = 2,
                                     .length = 128,
                                     .vocabulary = 256,
                                     .width = 128,
                                     .layers = 4,
                                     .query_heads = 4,
                                     .kv_heads = 4,
                                     .head_dim = 32,
                                     .mlp_width = 512};
  const models::Model llama = models::decoder(config);
  std::printf("labels of a layer:");
  for (const std::string& label : models::labels(llama)) std::printf(" %s", label.c_str());

  std::vector<int32_t> tokens(256), positions(256);
  for (int i = 0; i < 256; ++i) {
    tokens[i] = (7 * i) % 256;
    positions[i] = i % 128;
  }
  const offload::LayerLabels labels(models::main_stage(llama).programs);
  std::printf("\n\n%-10s %12s %12s %10s\n", "policy", "device, MiB", "host, MiB", "loss");
  for (const Policy& policy : {offload::make_policy("none", {}, labels),
                               offload::make_policy("full", {}, labels), kMlpAway}) {
    offload::Runtime runtime{offload::make_cpu_backend()};
    offload::ValueAndGrad f(runtime, llama, {.policy = policy});
    trainer::initialize(f.layout(), 1, f.arguments());
    f.set_batch("tokens", tokens);
    f.set_batch("targets", tokens);
    f.set_batch("positions", positions);
    auto mib = [&](MemoryKind kind) { return f.memory_analysis(kind).temp_bytes / 1048576.0; };
    std::printf("%-10s %12.2f %12.2f %10.4f\n", policy.name.c_str(), mib(MemoryKind::device),
                mib(MemoryKind::pinned_host), f() / std::ssize(tokens));
  }

  // A label that no layer has is a mistake, and is said to be one.
  Policy misspelt = kMlpAway;
  misspelt.actions["mlpwi0"] = Action::keep;
  try {
    offload::Runtime runtime{offload::make_cpu_backend()};
    offload::ValueAndGrad(runtime, llama, {.policy = misspelt});
  } catch (const ConfigError& error) {
    std::printf("\n%s\n", error.what());
  }
}
