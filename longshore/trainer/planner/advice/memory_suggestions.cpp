#include "longshore/trainer/planner/advice/memory_suggestions.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/parallel.h"
#include "longshore/base/text.h"
#include "longshore/trainer/config/device_mesh.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/keys.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/validate.h"
#include "longshore/trainer/planner/advice/fewest_devices.h"
#include "longshore/trainer/planner/advice/largest_that_fits.h"
#include "longshore/trainer/planner/room.h"

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
  if (config.parameter_layers_on_device > layers) config.parameter_layers_on_device = layers;
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
      {"parameter_layers_on_device",
       [](const Config& c, Target) {
         return c.parameter_memory_host_offload && c.parameter_layers_on_device > 0;
       },
       [](Config& c) { c.parameter_layers_on_device = 0; },
       [](Config& c, int64_t value) { c.parameter_layers_on_device = value; },
       Place<int64_t>{&Config::parameter_layers_on_device, -1}},
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
std::optional<MemoryByKind> memory_of(const RunSpec& spec) try {
  return analyze(plan_training(spec));
} catch (const ConfigError&) {
  return std::nullopt;
}

// The least that the config's plan may take, quickly: its states, which are given, or a little less
// than what follows from two models of few such layers, as memory grows with their number.
MemoryByKind least_memory(const RunSpec& spec, const MemoryByKind& states) {
  const Config& config = spec.config();
  constexpr int64_t kFewLayers = 6, kMoreLayers = 2 * kFewLayers;
  constexpr double kPrecision = 0.97;
  MemoryByKind least = states;
  if (config.model.layers <= 2 * kMoreLayers) return least;
  auto of_layers = [&](int64_t layers) {
    return memory_of(spec.changed([&](Config& one) {
      set_layers(one, layers);
      one.parameter_layers_on_device = 0;
    }));
  };
  const std::optional<MemoryByKind> of_few = of_layers(kFewLayers),
                                    of_more = of_layers(kMoreLayers);
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
bool may_fit(const RunSpec& spec, const RoomOf& room_of) {
  const MemoryByKind states = memory_of_states(spec);
  return room_of(states).fits() && room_of(least_memory(spec, states)).fits();
}

// Whether a kind of memory that was missing before is missing less after.
bool lessens(const Room& before, const Room& after) {
  return (before.device_spare_bytes < 0 && after.device_spare_bytes > before.device_spare_bytes) ||
         (before.host_spare_bytes < 0 && after.host_spare_bytes > before.host_spare_bytes);
}

// The bytes that the plan leaves of what it leaves least of; negative if it does not fit. A plan
// that there is not lacks all there could be.
int64_t spare_bytes(const RunSpec& spec, const RoomOf& room_of) try {
  validate(spec.config());
  Room room = room_of(least_memory(spec, memory_of_states(spec)));
  if (room.fits()) room = room_of(analyze(plan_training(spec)));
  return std::min(room.device_spare_bytes, room.host_spare_bytes);
} catch (const ConfigError&) {
  return -(int64_t{1} << 60);
}

// The run, which does not fit, with the largest value of the change's number from `fit` with which
// it does.
RunSpec with_least_change(const RunSpec& spec, const Change& change, int64_t fit,
                          const RoomOf& room_of) {
  auto with = [&](int64_t value) {
    return spec.changed([&](Config& one) { change.set(one, value); });
  };
  return with(largest_between(fit, change.number->get(spec.config()),
                              [&](int64_t value) { return spare_bytes(with(value), room_of); }));
}

// The run with the change; of a number, with the largest value that fits, if any does.
RunSpec changed(const RunSpec& spec, const Change& change, const RoomOf& room_of) {
  if (change.number && change.least < change.number->get(spec.config())) {
    const RunSpec least = spec.changed([&](Config& one) { change.set(one, change.least); });
    if (spare_bytes(least, room_of) >= 0)
      return with_least_change(spec, change, change.least, room_of);
  }
  return spec.changed(change.make);
}

using Keys = std::vector<std::string>;

// Several changes together, each on top of those before it.
struct Combination {
  Keys changed;
  RunSpec spec;
};

const Change& change_of(const std::string& key) {
  return *std::ranges::find(changes(), key, &Change::key);
}

// The run with the changes of these keys; those that do not apply are left out.
Combination with_changes(const RunSpec& spec, const Keys& keys) {
  Keys applied;
  Config config = spec.config();
  for (const std::string& key : keys) {
    const Change& change = change_of(key);
    if (!change.applies(config, spec.target())) continue;
    change.make(config);
    applied.push_back(key);
  }
  return {.changed = std::move(applied), .spec = spec.with(std::move(config))};
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
std::optional<RunSpec> combination_that_fits(const RunSpec& spec, const RoomOf& room_of) {
  auto fits = [&](const Combination& one) {
    if (!may_fit(one.spec, room_of)) return false;
    const std::optional<MemoryByKind> memory = memory_of(one.spec);
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
      tried.push_back(with_changes(spec, joined(joined(further, homes), least)));
    std::vector<char> is_enough(tried.size());
    parallel_for(tried.size(), [&](size_t i) { is_enough[i] = fits(tried[i]); });
    const auto first = std::ranges::find(is_enough, 1);
    if (first == is_enough.end()) continue;
    Combination found = tried[static_cast<size_t>(first - is_enough.begin())];
    for (size_t i = found.changed.size(); i-- > 0;) {
      Keys fewer = found.changed;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (const Combination without = with_changes(spec, fewer); fits(without)) found = without;
    }
    for (const std::string& key : found.changed) {
      const Change& change = change_of(key);
      if (!change.number) continue;
      const RunSpec before = found.spec.changed(
          [&](Config& one) { change.set(one, change.number->get(spec.config())); });
      found.spec =
          with_least_change(before, change, change.number->get(found.spec.config()), room_of);
    }
    return found.spec;
  }
  return std::nullopt;
}

struct Help {
  std::string lines;  // first those with which the same model fits
  bool fits = false;  // the same model, with one of them
};

Help helpful_changes(const RunSpec& spec, const RoomOf& room_of,
                     const std::set<std::string>& searched) {
  const Config& config = spec.config();
  const models::Target target = spec.target();
  std::vector<const Change*> tried;
  for (const Change& change : changes())
    if (!searched.contains(change.key) && change.applies(config, target)) tried.push_back(&change);
  std::vector<RunSpec> specs(tried.size(), spec);
  std::vector<std::optional<MemoryByKind>> memories(tried.size());
  parallel_for(tried.size(), [&](size_t i) {
    specs[i] = changed(spec, *tried[i], room_of);
    memories[i] = memory_of(specs[i]);
  });
  const Room before = room_of(analyze(plan_training(spec)));
  Help help;
  std::string others;  // of less of the model, and of what does not fit
  for (size_t i = 0; i < tried.size(); ++i) {
    if (!memories[i]) continue;
    const Room after = room_of(*memories[i]);
    if (!lessens(before, after)) continue;
    const bool is_enough = after.fits() && tried[i]->key != std::string_view(kLayers);
    (is_enough ? help.lines : others) +=
        helpful_line(changed_settings(config, specs[i].config(), searched), *memories[i], target,
                     memory_limits(config), after.fits() ? "fits" : "");
    help.fits = help.fits || is_enough;
  }
  help.lines += others;
  return help;
}

// The line of the fewest devices on which the plan fits; "" if there are none, or no file says how
// fast they reach each other.
std::string devices_that_help(const RunSpec& spec, const std::set<std::string>& searched) {
  const Config& config = spec.config();
  if (config.hardware.empty()) return "";
  std::optional<MemoryByKind> memory;
  const std::optional<RunSpec> several = on_fewest_devices(spec, [&](const RunSpec& one) {
    auto room_of = [&](const MemoryByKind& bytes) {
      return room(bytes, *one.hardware(), memory_limits(one.config()));
    };
    if (!may_fit(one, room_of)) return false;
    memory = memory_of(one);
    return memory && room_of(*memory).fits();
  });
  if (!several) return "";
  return helpful_line(
      changed_settings(config, several->config(), searched), *memory_of(*several), spec.target(),
      memory_limits(config),
      fmt::format("fits, on {}", plural(device_mesh(several->config()).devices(), "device")));
}

// Also several together, where no change alone makes room for the same model.
std::string ways_to_fit(const RunSpec& spec, const RoomOf& room_of,
                        const std::set<std::string>& searched) {
  const Help help = helpful_changes(spec, room_of, searched);
  if (help.fits) return help.lines;
  const std::optional<RunSpec> together = combination_that_fits(spec, room_of);
  if (!together) return help.lines;
  const std::string set = changed_settings(spec.config(), together->config(), searched);
  if (set.empty()) return help.lines;
  return help.lines + helpful_line(set, analyze(plan_training(*together)), spec.target(),
                                   memory_limits(spec.config()), "fits, all together");
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

std::string memory_suggestions(const RunSpec& spec, const std::set<std::string>& searched) {
  auto room_of = [&](const MemoryByKind& memory) {
    return room(memory, *spec.hardware(), memory_limits(spec.config()));
  };
  return ways_to_fit(spec, room_of, searched) + devices_that_help(spec, searched);
}

std::string changes_that_take_less(const RunSpec& spec) {
  const offload::Hardware nothing{.target = spec.target()};
  auto room_of = [&](const MemoryByKind& memory) { return room(memory, nothing); };
  return helpful_changes(spec, room_of, {}).lines;
}

std::string explain_out_of_memory(const RunSpec& spec, const TrainingPlans& plans,
                                  offload::Backend& backend) {
  const Config& config = spec.config();
  MemoryByKind memory = analyze(plans);
  const MemoryLimits limits = memory_limits(config);
  const int64_t devices = devices_per_node(config);
  const std::string table = shortage(memory, backend, limits, devices);
  if (table.empty()) return "";
  auto room_of = [&](const MemoryByKind& one) { return room(one, backend, limits, devices); };
  return fmt::format("{} does not fit on this machine:\n{}It would need {}; with\n{}",
                     config.config_file, table, needs(memory, spec.target(), limits),
                     ways_to_fit(spec, room_of, {}));
}

}  // namespace longshore::trainer
