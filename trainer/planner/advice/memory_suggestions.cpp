#include "trainer/planner/advice/memory_suggestions.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "trainer/config/device_mesh.h"
#include "trainer/config/key_values.h"
#include "trainer/config/keys.h"
#include "trainer/config/model_config.h"
#include "trainer/config/named_hardware.h"
#include "trainer/config/validate.h"
#include "trainer/planner/advice/fewest_devices.h"
#include "trainer/planner/advice/largest_that_fits.h"
#include "trainer/planner/room.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::MemoryKind;

// A change of a config with which its plan takes less memory.
struct Change {
  const char* key;
  bool (*applies)(const Config&, models::Target);
  void (*make)(Config&);
  // Of a number: sets it, and the least value that is worth trying. The largest that fits is what
  // helps; if none does, what make() sets is shown.
  void (*set)(Config&, int64_t) = nullptr;
  std::optional<Place<int64_t>> number;
  int64_t least = 1;
};

constexpr int64_t kFewTokens = 128;  // shorter rows are hardly worth training on
constexpr const char* kLayers = "base_num_decoder_layers";
constexpr const char* kHomes[] = {"optimizer_memory_host_offload", "gradient_memory_host_offload",
                                  "parameter_memory_host_offload"};

void set_layers(Config& config, int64_t layers) {
  config.model.layers = layers;
  if (config.offload_layers > layers) config.offload_layers.reset();
}

const std::vector<Change>& changes() {
  using Target = models::Target;
  static const std::vector<Change> changes{
      {"remat_policy", [](const Config& c, Target) { return c.remat_policy != offload::kFull; },
       [](Config& c) {
         c.remat_policy = offload::kFull;
         c.label_actions.clear();
         c.auto_micro_batch = false;
       }},
      {"shard_optimizer_over_data",
       [](const Config& c, Target) {
         return !c.shard_optimizer_over_data &&
                (c.ici_data_parallelism > 1 || c.dcn_data_parallelism > 1);
       },
       [](Config& c) { c.shard_optimizer_over_data = true; }},
      {kHomes[0], [](const Config& c, Target) { return !c.optimizer_memory_host_offload; },
       [](Config& c) { c.optimizer_memory_host_offload = true; }},
      {kHomes[1], [](const Config& c, Target) { return !c.gradient_memory_host_offload; },
       [](Config& c) { c.gradient_memory_host_offload = true; }},
      {kHomes[2], [](const Config& c, Target) { return !c.parameter_memory_host_offload; },
       [](Config& c) { c.parameter_memory_host_offload = true; }},
      {"prefetch_layers", [](const Config& c, Target) { return c.prefetch_layers != 0; },
       [](Config& c) { c.prefetch_layers = 0; }},
      {"async_checkpointing",
       [](const Config& c, Target) { return c.checkpoint_period > 0 && c.async_checkpointing; },
       [](Config& c) { c.async_checkpointing = false; }},
      {"moment_dtype",
       [](const Config& c, Target) { return c.moment_dtype != models::StateFormat::block8; },
       [](Config& c) { c.moment_dtype = models::StateFormat::block8; }},
      {"weight_dtype",
       [](const Config& c, Target target) {
         return c.weight_dtype != WeightDtype::bfloat16 && c.dtype != ComputeDtype::float32 &&
                has_bfloat16(target);
       },
       [](Config& c) { c.weight_dtype = WeightDtype::bfloat16; }},
      {"per_device_batch_size", [](const Config& c, Target) { return c.per_device_batch_size > 1; },
       [](Config& c) { c.per_device_batch_size = 1; },
       [](Config& c, int64_t value) { c.per_device_batch_size = value; },
       &Config::per_device_batch_size},
      {"max_target_length",
       [](const Config& c, Target) { return c.max_target_length > kFewTokens; },
       [](Config& c) { c.max_target_length /= 2; },
       [](Config& c, int64_t value) { c.max_target_length = value; }, &Config::max_target_length,
       kFewTokens},
      {"gradient_accumulation_steps",
       [](const Config& c, Target) { return c.gradient_accumulation_steps > 1; },
       [](Config& c) { c.gradient_accumulation_steps = 1; }},
      {kLayers,
       [](const Config& c, Target) { return c.model.layers > 1 && c.load_parameters_path.empty(); },
       [](Config& c) { set_layers(c, c.model.layers / 2); }, set_layers,
       &models::DecoderConfig::layers}};
  return changes;
}

// As a command line has a value: without quotes.
std::string argument_text(const Key& key, const Config& config) {
  const std::string value = value_text(key, config);
  return value.starts_with('"') ? value.substr(1, value.size() - 2) : value;
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

// The least that the config's plan may take, quickly: its states, which are given, or a little less
// than what follows from two models of few such layers, as memory grows with their number.
MemoryByKind least_memory(const Config& config, models::Target target, const MemoryByKind& states) {
  constexpr int64_t kFewLayers = 6, kMoreLayers = 2 * kFewLayers;
  constexpr double kPrecision = 0.97;
  MemoryByKind least = states;
  if (config.model.layers <= 2 * kMoreLayers) return least;
  Config few = config, more = config;
  set_layers(few, kFewLayers);
  set_layers(more, kMoreLayers);
  const std::optional<MemoryByKind> of_few = memory_of(few, target),
                                    of_more = memory_of(more, target);
  if (!of_few || !of_more) return least;
  const double times = static_cast<double>(config.model.layers - kFewLayers) / kFewLayers;
  for (const MemoryKind kind : offload::kMemoryKinds) {
    const auto first = static_cast<double>((*of_few)[kind].peak_bytes),
               second = static_cast<double>((*of_more)[kind].peak_bytes);
    least[kind].peak_bytes =
        std::max(least[kind].peak_bytes,
                 static_cast<int64_t>(kPrecision * (first + times * (second - first))));
  }
  return least;
}

// Whether the plan's least memory has room: a cheap answer before that of the plan.
bool may_fit(const Config& config, models::Target target, const RoomOf& room_of) {
  const MemoryByKind states = memory_of_states(config, target);
  return room_of(states).fits() && room_of(least_memory(config, target, states)).fits();
}

// Whether a kind of memory that was missing before is missing less after.
bool lessens(const Room& before, const Room& after) {
  return (before.device_spare_bytes < 0 && after.device_spare_bytes > before.device_spare_bytes) ||
         (before.host_spare_bytes < 0 && after.host_spare_bytes > before.host_spare_bytes);
}

// The bytes that the plan leaves of what it leaves least of; negative if it does not fit. A plan
// that there is not lacks all there could be.
int64_t spare_bytes(const Config& config, models::Target target, const RoomOf& room_of) try {
  validate(config);
  Room room = room_of(least_memory(config, target, memory_of_states(config, target)));
  if (room.fits()) room = room_of(analyze(plan_training(config, target)));
  return std::min(room.device_spare_bytes, room.host_spare_bytes);
} catch (const ConfigError&) {
  return -(int64_t{1} << 60);
}

// `config`, which does not fit, with the largest value of the change's number from `fit` with which
// it does.
Config with_least_change(const Config& config, const Change& change, int64_t fit,
                         models::Target target, const RoomOf& room_of) {
  auto with = [&](int64_t value) {
    Config one = config;
    change.set(one, value);
    return one;
  };
  return with(largest_between(fit, change.number->get(config), [&](int64_t value) {
    return spare_bytes(with(value), target, room_of);
  }));
}

// `config` with the change; of a number, with the largest value that fits, if any does.
Config changed(const Config& config, const Change& change, models::Target target,
               const RoomOf& room_of) {
  Config result = config;
  if (change.number && change.least < change.number->get(config)) {
    change.set(result, change.least);
    if (spare_bytes(result, target, room_of) >= 0)
      return with_least_change(config, change, change.least, target, room_of);
    result = config;
  }
  change.make(result);
  return result;
}

using Keys = std::vector<std::string>;

// Several changes together, each on top of those before it.
struct Combination {
  Keys changed;
  Config config;
};

const Change& change_of(const std::string& key) {
  return *std::ranges::find(changes(), key, &Change::key);
}

// `config` with the changes of these keys; those that do not apply are left out.
Combination with_changes(const Config& config, const Keys& keys, models::Target target) {
  Combination result{.changed = {}, .config = config};
  for (const std::string& key : keys) {
    const Change& change = change_of(key);
    if (!change.applies(result.config, target)) continue;
    change.make(result.config);
    result.changed.push_back(key);
  }
  return result;
}

// What may be moved to the host, in every way, the fewest first.
std::vector<Keys> all_homes() {
  std::vector<Keys> all(size_t{1} << std::size(kHomes));
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t bit = 0; bit < std::size(kHomes); ++bit)
      if (i >> bit & 1) all[i].push_back(kHomes[bit]);
  std::ranges::stable_sort(all, {}, &Keys::size);
  return all;
}

// Changes with which the plan fits together, none of which could be left out; nothing where none
// are found. First those that change no result, then what changes more.
std::optional<Config> combination_that_fits(const Config& config, models::Target target,
                                            const RoomOf& room_of) {
  auto fits = [&](const Combination& one) {
    if (!may_fit(one.config, target, room_of)) return false;
    const std::optional<MemoryByKind> memory = memory_of(one.config, target);
    return memory && room_of(*memory).fits();
  };
  const Keys least{"remat_policy", "prefetch_layers", "async_checkpointing"};
  auto joined = [](Keys one, const Keys& other) {
    one.insert(one.end(), other.begin(), other.end());
    return one;
  };
  for (const Keys& further :
       {Keys{}, Keys{"moment_dtype"}, Keys{"weight_dtype"}, Keys{"moment_dtype", "weight_dtype"},
        Keys{"moment_dtype", "weight_dtype", "per_device_batch_size"},
        Keys{"moment_dtype", "weight_dtype", "per_device_batch_size", "max_target_length"}}) {
    std::vector<Combination> tried;
    for (const Keys& homes : all_homes())
      tried.push_back(with_changes(config, joined(joined(further, homes), least), target));
    std::vector<char> is_enough(tried.size());
    parallel_for(tried.size(), [&](size_t i) { is_enough[i] = fits(tried[i]); });
    const auto first = std::ranges::find(is_enough, 1);
    if (first == is_enough.end()) continue;
    Combination found = tried[static_cast<size_t>(first - is_enough.begin())];
    for (size_t i = found.changed.size(); i-- > 0;) {
      Keys fewer = found.changed;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (const Combination without = with_changes(config, fewer, target); fits(without))
        found = without;
    }
    for (const std::string& key : found.changed) {
      const Change& change = change_of(key);
      if (!change.number) continue;
      Config before = found.config;
      change.set(before, change.number->get(config));
      found.config =
          with_least_change(before, change, change.number->get(found.config), target, room_of);
    }
    return found.config;
  }
  return std::nullopt;
}

struct Help {
  std::string lines;  // first those with which the same model fits
  bool fits = false;  // the same model, with one of them
};

Help helpful_changes(const Config& config, models::Target target, const RoomOf& room_of,
                     const std::set<std::string>& searched) {
  std::vector<const Change*> tried;
  for (const Change& change : changes())
    if (!searched.contains(change.key) && change.applies(config, target)) tried.push_back(&change);
  std::vector<Config> configs(tried.size());
  std::vector<std::optional<MemoryByKind>> memories(tried.size());
  parallel_for(tried.size(), [&](size_t i) {
    configs[i] = changed(config, *tried[i], target, room_of);
    memories[i] = memory_of(configs[i], target);
  });
  const Room before = room_of(analyze(plan_training(config, target)));
  Help help;
  std::string others;  // of less of the model, and of what does not fit
  for (size_t i = 0; i < tried.size(); ++i) {
    if (!memories[i]) continue;
    const Room after = room_of(*memories[i]);
    if (!lessens(before, after)) continue;
    const bool is_enough = after.fits() && tried[i]->key != std::string_view(kLayers);
    (is_enough ? help.lines : others) +=
        helpful_line(changed_settings(config, configs[i], searched), *memories[i], target,
                     memory_limits(config), after.fits() ? "fits" : "");
    help.fits = help.fits || is_enough;
  }
  help.lines += others;
  return help;
}

// The line of the fewest devices on which the plan fits; "" if there are none, or no profile says
// how fast they reach each other.
std::string devices_that_help(const Config& config, const std::set<std::string>& searched) {
  if (config.hardware.empty()) return "";
  const models::Target target = named_hardware(config)->target;
  std::optional<MemoryByKind> memory;
  const std::optional<Config> several = on_fewest_devices(config, [&](const Config& one) {
    auto room_of = [&](const MemoryByKind& bytes) {
      return room(bytes, *named_hardware(one), memory_limits(one));
    };
    if (!may_fit(one, target, room_of)) return false;
    memory = memory_of(one, target);
    return memory && room_of(*memory).fits();
  });
  if (!several) return "";
  return helpful_line(
      changed_settings(config, *several, searched), *memory_of(*several, target), target,
      memory_limits(config),
      fmt::format("fits, on {}", plural(device_mesh(*several).devices(), "device")));
}

// Also several together, where no change alone makes room for the same model.
std::string ways_to_fit(const Config& config, models::Target target, const RoomOf& room_of,
                        const std::set<std::string>& searched) {
  const Help help = helpful_changes(config, target, room_of, searched);
  if (help.fits) return help.lines;
  const std::optional<Config> together = combination_that_fits(config, target, room_of);
  if (!together) return help.lines;
  const std::string set = changed_settings(config, *together, searched);
  if (set.empty()) return help.lines;
  return help.lines + helpful_line(set, analyze(plan_training(*together, target)), target,
                                   memory_limits(config), "fits, all together");
}

}  // namespace

std::string changed_settings(const Config& before, const Config& after,
                             const std::set<std::string>& searched) {
  std::vector<std::string> list;
  for (const Key& key : config_keys()) {
    const bool is_label = std::holds_alternative<LabelKey>(key.kind);
    if (searched.contains(key.name) || (is_label && searched.contains("remat_policy"))) continue;
    if (const std::string value = argument_text(key, after); value != argument_text(key, before))
      list.push_back(key.name + "=" + value);
  }
  return join(list, " ");
}

std::string helpful_line(const std::string& setting, const MemoryByKind& memory,
                         models::Target target, const MemoryLimits& limits,
                         const std::string& remark) {
  return fmt::format("  {:<36} {}{}{}\n", setting, needs(memory, target, limits),
                     remark.empty() ? "" : ": ", remark);
}

std::string memory_suggestions(const Config& config, const offload::Hardware& hardware,
                               const std::set<std::string>& searched) {
  auto room_of = [&](const MemoryByKind& memory) {
    return room(memory, hardware, memory_limits(config));
  };
  return ways_to_fit(config, hardware.target, room_of, searched) +
         devices_that_help(config, searched);
}

std::string memory_suggestions(const Config& config, models::Target target) {
  const offload::Hardware nothing{.target = target};
  auto room_of = [&](const MemoryByKind& memory) { return room(memory, nothing); };
  return helpful_changes(config, target, room_of, {}).lines;
}

std::string explain_out_of_memory(const Config& config, const TrainingPlans& plans,
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
