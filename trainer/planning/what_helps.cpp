#include "trainer/planning/what_helps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "trainer/config/device_mesh.h"
#include "trainer/config/model_config.h"
#include "trainer/planning/room.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::MemoryKind;

std::string key_of(const std::string& setting) { return setting.substr(0, setting.find('=')); }

struct Choice {
  std::string setting;
  Config config;

  std::string key() const { return key_of(setting); }
  bool is_of_the_same_model() const { return key() != "base_num_decoder_layers"; }
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
  add(!config.optimizer_memory_host_offload, "optimizer_memory_host_offload=true",
      [](Config& c) { c.optimizer_memory_host_offload = true; });
  add(!config.gradient_memory_host_offload, "gradient_memory_host_offload=true",
      [](Config& c) { c.gradient_memory_host_offload = true; });
  add(!config.parameter_memory_host_offload, "parameter_memory_host_offload=true",
      [](Config& c) { c.parameter_memory_host_offload = true; });
  add(config.prefetch_layers != 0, "prefetch_layers=0", [](Config& c) { c.prefetch_layers = 0; });
  add(config.checkpoint_period > 0 && config.async_checkpointing, "async_checkpointing=false",
      [](Config& c) { c.async_checkpointing = false; });
  add(config.moment_dtype != MomentDtype::block8, "moment_dtype=8bit",
      [](Config& c) { c.moment_dtype = MomentDtype::block8; });
  add(config.weight_dtype != WeightDtype::bfloat16 && config.dtype != ComputeDtype::float32 &&
          has_bfloat16(target),
      "weight_dtype=bfloat16", [](Config& c) { c.weight_dtype = WeightDtype::bfloat16; });
  add(config.per_device_batch_size > 1, "per_device_batch_size=1",
      [](Config& c) { c.per_device_batch_size = 1; });
  add(config.max_target_length >= 1024,
      fmt::format("max_target_length={}", config.max_target_length / 2),
      [](Config& c) { c.max_target_length /= 2; });
  add(config.gradient_accumulation_steps > 1, "gradient_accumulation_steps=1",
      [](Config& c) { c.gradient_accumulation_steps = 1; });
  add(config.base_num_decoder_layers > 1 && config.load_parameters_path.empty(),
      fmt::format("base_num_decoder_layers={}", config.base_num_decoder_layers / 2), [](Config& c) {
        c.base_num_decoder_layers /= 2;
        c.offload_layers = -1;
      });
  return choices;
}

std::string needs(const MemoryByKind& memory, models::Target target, const MemoryLimits& limits) {
  const bool has_limits = limits.device_bytes || limits.host_bytes;
  if (!models::is_cuda(target) && !has_limits) return bytes_text(total_peak_bytes(memory));
  std::string text =
      fmt::format("device {}, pinned_host {}", bytes_text(memory[MemoryKind::device].peak_bytes),
                  bytes_text(memory[MemoryKind::pinned_host].peak_bytes));
  if (int64_t unpinned = memory[MemoryKind::unpinned_host].peak_bytes; unpinned > 0)
    text += ", unpinned_host " + bytes_text(unpinned);
  return text;
}

using RoomOf = std::function<Room(const MemoryByKind&)>;

// Nothing where there is no such plan: a mask may find nothing in fewer layers, say.
std::optional<MemoryByKind> memory_of(const Config& config, models::Target target) try {
  return analyze(plan_training(config, target));
} catch (const ConfigError&) {
  return std::nullopt;
}

// Whether a kind of memory that was missing before is missing less after.
bool lessens(const Room& before, const Room& after) {
  return (before.device_spare_bytes < 0 && after.device_spare_bytes > before.device_spare_bytes) ||
         (before.host_spare_bytes < 0 && after.host_spare_bytes > before.host_spare_bytes);
}

// Several choices together, each on top of those before it.
struct Combination {
  std::vector<std::string> settings;
  Config config;
};

// `config` with the settings of smaller_choices(); those that it has already are left out.
Combination with_settings(const Config& config, const std::vector<std::string>& settings,
                          models::Target target) {
  Combination result{.settings = {}, .config = config};
  for (const std::string& setting : settings)
    for (const Choice& offered : smaller_choices(result.config, target)) {
      if (offered.key() != key_of(setting)) continue;
      result.config = offered.config;
      result.settings.push_back(offered.setting);
      break;
    }
  return result;
}

// What may be moved to the host, in every way, the fewest first.
std::vector<std::vector<std::string>> all_homes() {
  const std::array<std::string, 3> moves{"optimizer_memory_host_offload=true",
                                         "gradient_memory_host_offload=true",
                                         "parameter_memory_host_offload=true"};
  std::vector<std::vector<std::string>> all(size_t{1} << moves.size());
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t bit = 0; bit < moves.size(); ++bit)
      if (i >> bit & 1) all[i].push_back(moves[bit]);
  std::ranges::stable_sort(all, {}, &std::vector<std::string>::size);
  return all;
}

// Choices with which the plan fits together, none of which could be left out; nothing where none
// are found. First those that change no result, then what changes more.
std::optional<Combination> combination_that_fits(const Config& config, models::Target target,
                                                 const RoomOf& room_of) {
  auto fits = [&](const Combination& one) {
    const std::optional<MemoryByKind> memory = memory_of(one.config, target);
    return memory && room_of(*memory).fits();
  };
  const std::vector<std::string> least{"remat_policy=full", "prefetch_layers=0",
                                       "async_checkpointing=false"},
      moments{"moment_dtype=8bit"}, weights{"weight_dtype=bfloat16"};
  auto joined = [](std::vector<std::string> one, const std::vector<std::string>& other) {
    one.insert(one.end(), other.begin(), other.end());
    return one;
  };
  const std::vector<std::string> both = joined(moments, weights),
                                 one_row = joined(both, {"per_device_batch_size=1"});
  for (const std::vector<std::string>& changes :
       {std::vector<std::string>(), moments, weights, both, one_row,
        joined(one_row, {"max_target_length"})}) {
    std::vector<Combination> tried;
    for (const std::vector<std::string>& homes : all_homes())
      tried.push_back(with_settings(config, joined(joined(changes, homes), least), target));
    std::vector<char> is_enough(tried.size());
    parallel_for(tried.size(), [&](size_t i) { is_enough[i] = fits(tried[i]); });
    const auto first = std::ranges::find(is_enough, 1);
    if (first == is_enough.end()) continue;
    Combination found = tried[static_cast<size_t>(first - is_enough.begin())];
    for (size_t i = found.settings.size(); i-- > 0;) {
      std::vector<std::string> fewer = found.settings;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (const Combination without = with_settings(config, fewer, target); fits(without))
        found = without;
    }
    return found;
  }
  return std::nullopt;
}

struct Help {
  std::string lines;
  bool fits = false;  // with one of them
};

Help helpful_choices(const Config& config, models::Target target, const RoomOf& room_of,
                     const std::set<std::string>& searched) {
  const Room before = room_of(analyze(plan_training(config, target)));
  Help help;
  for (const Choice& choice : smaller_choices(config, target)) {
    if (searched.contains(choice.key())) continue;
    const std::optional<MemoryByKind> memory = memory_of(choice.config, target);
    if (!memory) continue;
    const Room after = room_of(*memory);
    if (!lessens(before, after)) continue;
    help.lines += helpful_line(choice.setting, *memory, target, memory_limits(config),
                               after.fits() ? "fits" : "");
    help.fits = help.fits || (after.fits() && choice.is_of_the_same_model());
  }
  return help;
}

// Also several together, where no choice alone makes room for the same model.
std::string ways_to_fit(const Config& config, models::Target target, const RoomOf& room_of,
                        const std::set<std::string>& searched) {
  const Help help = helpful_choices(config, target, room_of, searched);
  if (help.fits) return help.lines;
  std::optional<Combination> together = combination_that_fits(config, target, room_of);
  if (!together) return help.lines;
  std::erase_if(together->settings,
                [&](const std::string& setting) { return searched.contains(key_of(setting)); });
  if (together->settings.empty()) return help.lines;
  return help.lines + helpful_line(join(together->settings, " "),
                                   analyze(plan_training(together->config, target)), target,
                                   memory_limits(config), "fits, all together");
}

}  // namespace

std::string helpful_line(const std::string& setting, const MemoryByKind& memory,
                         models::Target target, const MemoryLimits& limits,
                         const std::string& remark) {
  return fmt::format("  {:<36} {}{}{}\n", setting, needs(memory, target, limits),
                     remark.empty() ? "" : ": ", remark);
}

std::string what_helps(const Config& config, const offload::Hardware& hardware,
                       const std::set<std::string>& searched) {
  auto room_of = [&](const MemoryByKind& memory) {
    return room(memory, hardware, memory_limits(config));
  };
  return ways_to_fit(config, hardware.target, room_of, searched);
}

std::string what_helps(const Config& config, models::Target target) {
  const offload::Hardware nothing{.target = target};
  auto room_of = [&](const MemoryByKind& memory) { return room(memory, nothing); };
  return helpful_choices(config, target, room_of, {}).lines;
}

std::string why_no_room(const Config& config, const TrainingPlans& plans,
                        offload::Backend& backend) {
  MemoryByKind memory = analyze(plans);
  const models::Target target = backend.target();
  const MemoryLimits limits = memory_limits(config);
  const int64_t devices = devices_per_node(config);
  const std::string table = shortage(memory, backend, limits, devices);
  if (table.empty()) return "";
  auto room_of = [&](const MemoryByKind& one) { return room(one, backend, limits, devices); };
  return fmt::format("{} does not fit on this machine:\n{}It would need {}; with\n{}",
                     config.config_file, table, needs(memory, target, limits),
                     ways_to_fit(config, target, room_of, {}));
}

}  // namespace longshore::trainer
