#include "trainer/room.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::MemoryKind;

// The CPU backend's kinds share one memory, so they must fit together.
bool shares_memory(models::Target target) { return target != models::Target::cuda; }

struct Choice {
  std::string setting;
  Config config;
};

std::vector<Choice> smaller_choices(const Config& config, models::Target target) {
  std::vector<Choice> choices;
  auto add = [&](bool applies, const std::string& setting, auto change) {
    if (!applies) return;
    Config changed = config;
    change(changed);
    choices.push_back({setting, changed});
  };
  add(config.remat_policy != "full", "remat_policy=full", [](Config& c) {
    c.remat_policy = "full";
    c.label_fates.clear();
  });
  add(!shares_memory(target) && !config.optimizer_memory_host_offload,
      "optimizer_memory_host_offload=true",
      [](Config& c) { c.optimizer_memory_host_offload = true; });
  add(!shares_memory(target) && !config.gradient_memory_host_offload,
      "gradient_memory_host_offload=true",
      [](Config& c) { c.gradient_memory_host_offload = true; });
  add(!shares_memory(target) && !config.parameter_memory_host_offload,
      "parameter_memory_host_offload=true",
      [](Config& c) { c.parameter_memory_host_offload = true; });
  add(config.moment_dtype != MomentDtype::block8, "moment_dtype=8bit",
      [](Config& c) { c.moment_dtype = MomentDtype::block8; });
  add(config.weight_dtype != WeightDtype::bfloat16 && config.dtype != ComputeDtype::float32,
      "weight_dtype=bfloat16", [](Config& c) { c.weight_dtype = WeightDtype::bfloat16; });
  add(config.per_device_batch_size > 1, "per_device_batch_size=1",
      [](Config& c) { c.per_device_batch_size = 1; });
  add(config.max_target_length >= 1024,
      fmt::format("max_target_length={}", config.max_target_length / 2),
      [](Config& c) { c.max_target_length /= 2; });
  add(config.gradient_accumulation_steps > 1, "gradient_accumulation_steps=1",
      [](Config& c) { c.gradient_accumulation_steps = 1; });
  add(config.base_num_decoder_layers > 1,
      fmt::format("base_num_decoder_layers={}", config.base_num_decoder_layers / 2), [](Config& c) {
        c.base_num_decoder_layers /= 2;
        c.offload_layers = -1;
      });
  return choices;
}

std::string needs(const MemoryByKind& memory, models::Target target) {
  if (shares_memory(target)) return bytes_text(total_peak_bytes(memory));
  return fmt::format("device {}, pinned_host {}",
                     bytes_text(of(memory, MemoryKind::device).peak_bytes),
                     bytes_text(of(memory, MemoryKind::pinned_host).peak_bytes));
}

}  // namespace

std::string shortage(const MemoryByKind& memory, offload::Backend& backend) {
  bool fits = true;
  std::string table;
  for (MemoryKind kind : {MemoryKind::device, MemoryKind::pinned_host}) {
    const offload::MemoryAnalysis& a = of(memory, kind);
    int64_t available = backend.available_bytes(kind);
    int64_t needed = shares_memory(backend.target()) ? total_peak_bytes(memory) : a.peak_bytes;
    fits = fits && needed <= available;
    table += fmt::format("  {:<12} needs {} ({}), available {}\n", offload::name(kind),
                         bytes_text(a.peak_bytes), categories_text(a), bytes_text(available));
  }
  return fits ? "" : table;
}

void require_room(const Config& config, const TrainingPlans& plans, offload::Backend& backend) {
  MemoryByKind memory = analyze(plans.all());
  models::Target target = backend.target();
  std::string table = shortage(memory, backend);
  if (table.empty()) return;
  std::string smaller;
  for (const Choice& choice : smaller_choices(config, target))
    smaller += fmt::format("  {:<36} {}\n", choice.setting,
                           needs(analyze(plan_training(choice.config, target).all()), target));
  throw PlanError(fmt::format("{} does not fit on this machine:\n{}It would need {}; with\n{}",
                              config.config_file, table, needs(memory, target), smaller));
}

}  // namespace longshore::trainer
