#include "trainer/planning/auto_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/parallel.h"
#include "trainer/config/device_mesh.h"
#include "trainer/config/model_config.h"
#include "trainer/planning/auto_formula.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::Event;
using offload::Fate;
using offload::Hardware;
using offload::Lane;
using offload::MemoryKind;

// The formula knows neither waiting for single values nor gaps in the arena: what it finds best on
// a slower link, or with some layers' values less of memory, has some slack.
struct Slack {
  double derate, layers;
};
constexpr Slack kSlacks[] = {{1, -1}, {1, 0}, {0.85, 0}, {0.6, 0}, {1, 1}, {0.85, 1}};
constexpr Slack kMoreSlacks[] = {{1, 2}, {1, 4}, {1, 8}};  // where they promise more than was found
constexpr double kPromise = 0.005;
constexpr size_t kWalkedBySlack = 8;
constexpr size_t kWalkedAlike = 2;  // of these, with the same first layers
constexpr double kLate = 0.5;       // layers ahead
constexpr double kNear = 0.03;      // what the formula finds so much slower is not walked

constexpr int64_t kNever = std::numeric_limits<int64_t>::min() / 4;
constexpr Room kImpossible{kNever, kNever};

bool is_set(const Config& config, const char* key) { return config.origins.contains(key); }

template <class T>
void set(Config& config, const char* key, T Config::*member, const T& value) {
  if (config.*member == value) return;
  config.*member = value;
  config.origins[key] = kChosen;
}

// --- what is searched besides the layers

// Where states live. Keys that are set stay.
std::vector<Config> homes_of(const Config& config) {
  std::vector<Config> list{config};
  auto also = [&](const char* key, bool Config::*member) {
    if (is_set(config, key)) return;
    for (size_t i = 0, n = list.size(); i < n; ++i) {
      list.push_back(list[i]);
      set(list.back(), key, member, true);
    }
  };
  also("parameter_memory_host_offload", &Config::parameter_memory_host_offload);
  if (config.model_type == ModelType::toy_a) return list;  // has neither gradients' home nor states
  also("gradient_memory_host_offload", &Config::gradient_memory_host_offload);
  also("optimizer_memory_host_offload", &Config::optimizer_memory_host_offload);
  if (is_set(config, "optimizer_compute")) return list;
  for (size_t i = 0, n = list.size(); i < n; ++i)
    if (list[i].optimizer_memory_host_offload) {
      list.push_back(list[i]);
      set(list.back(), "optimizer_compute", &Config::optimizer_compute, OptimizerCompute::host);
    }
  return list;
}

std::set<std::string> searched_keys(const Config& config) {
  std::set<std::string> keys{"parameter_memory_host_offload", "gradient_memory_host_offload",
                             "optimizer_memory_host_offload", "prefetch_layers"};
  std::erase_if(keys, [&](const std::string& key) {
    return config.origins.contains(key) && config.origins.at(key) != kChosen;
  });
  keys.insert("remat_policy");
  if (config.auto_micro_batch)
    keys.insert({"per_device_batch_size", "gradient_accumulation_steps"});
  return keys;
}

// As a config is written down: with what `auto` has chosen in its place.
void settle(Config& config, const std::string& policy) {
  config.remat_policy = policy;
  config.origins["remat_policy"] = kChosen;
  set(config, "auto_micro_batch", &Config::auto_micro_batch, false);
}

// How a step's sequences are cut into micro-batches.
std::vector<Config> cuts_of(const Config& config) {
  if (!config.auto_micro_batch) return {config};
  int64_t rows = config.per_device_batch_size * config.gradient_accumulation_steps;
  std::vector<Config> list;
  for (int64_t size = rows; size > 0; --size) {
    if (rows % size != 0 || size * config.max_target_length > kMaxTokens) continue;
    list.push_back(config);
    set(list.back(), "per_device_batch_size", &Config::per_device_batch_size, size);
    set(list.back(), "gradient_accumulation_steps", &Config::gradient_accumulation_steps,
        rows / size);
    if (rows / size >= 64) break;  // so small a part is never the fastest
  }
  return list;
}

// --- what is written down

std::vector<std::string> fate_texts(Fate first, Fate others) {
  if (first == others && first != Fate::offload) return {name(first)};
  return {name(first), name(others)};
}

Config config_of(const Split& split) {
  const LayerChoices& choices = *split.base->choices;
  const offload::Policy &first = choices.assignments[split.first].policy,
                        &others = choices.assignments[split.others].policy;
  Config config = split.base->config;
  settle(config, "custom");
  bool has_others = split.layers < choices.layers;
  auto write = [&](const std::string& label, Fate fate, Fate fate_of_others) {
    config.label_fates[label] = fate_texts(fate, has_others ? fate_of_others : fate);
    config.origins[label] = kChosen;
  };
  for (const auto& [label, fate] : first.fates) write(label, fate, others.fates.at(label));
  write(offload::kUnlabelled, first.otherwise, others.otherwise);
  if ((has_others && !(first == others)) || first.offloads())
    set<int64_t>(config, "offload_layers", &Config::offload_layers, split.layers);
  bool moves = first.offloads() || others.offloads() || config.parameter_memory_host_offload ||
               config.gradient_memory_host_offload || config.optimizer_memory_host_offload;
  if (moves && !is_set(config, "prefetch_layers"))
    set(config, "prefetch_layers", &Config::prefetch_layers, split.layers_ahead);
  return config;
}

Config named_config(const Config& base, const std::string& policy) {
  Config config = base;
  settle(config, policy);
  return config;
}

// --- the search

std::map<std::string, Fate> fixed_fates(const Config& config) {
  std::map<std::string, Fate> fixed;
  for (const auto& [label, fates] : config.label_fates)
    for (Fate fate : {Fate::keep, Fate::offload, Fate::remat})
      if (fates[0] == name(fate)) fixed[label] = fate;
  return fixed;
}

// What a named policy takes of the layers that follow it and of the last.
struct Named {
  std::string policy;
  offload::Assignment first, last;
};

class Search {
 public:
  Search(const Config& config, models::Target target)
      : config_(config), target_(target), hardware_(*named_hardware(config)) {
    for (Config& cut : cuts_of(config_)) add_bases(cut);
  }

  // None where nothing fits.
  std::optional<AutoChoice> operator()() {
    for (const Slack& slack : kSlacks) choose(ranked(slack));
    walk_chosen();
    walk_named();
    for (const Slack& more : kMoreSlacks)
      if (std::vector<Split> list = ranked(more);
          !list.empty() && list[0].seconds < (1 - kPromise) * best_seconds()) {
        choose(list);
        walk_chosen();
      }
    if (best_seconds() == INFINITY) walk_thriftiest();
    return finish();
  }

  [[noreturn]] void refuse() const {
    const Tried& least = *std::ranges::min_element(
        tried_, {}, [](const Tried& one) { return missing_bytes(one.room); });
    throw PlanError(fmt::format(
        "{}: remat_policy auto: of {} plans none fits {}. The smallest ({}) takes device {}, host "
        "{}; fits: {}. Besides, with\n{}",
        config_.config_file, tried_.size(), hardware_.name, what(least.config),
        bytes_text(of(least.memory, MemoryKind::device).peak_bytes),
        bytes_text(host_peak_bytes(least.memory)), fits_text(least.room),
        what_helps(least.config, hardware_, searched_keys(config_))));
  }

 private:
  // Those of one size of micro-batches.
  void add_bases(Config& cut) {
    std::map<std::string, Fate> fixed = fixed_fates(cut);
    models::Model model = make_model(cut, target_);
    const models::Stage& stage = *std::ranges::find_if(model.stages, &models::Stage::is_scan);
    with_origin(config_, [&] {  // throws where they do not suit
      return offload::make_policy("custom", fixed, stage.programs[0]);
    });
    choices_.push_back(layer_choices(model, fixed, cut.gradient_accumulation_steps, hardware_));
    std::vector<Named>& named = named_[&choices_.back()];
    for (const offload::PolicyInfo& info : offload::policies()) try {
        if (info.name == "custom" || !fixed.empty()) continue;
        offload::Policy policy = offload::make_policy(info.name, {}, stage.programs[0]);
        named.push_back({info.name, assign(stage, policy, hardware_),
                         assign(stage, policy.kept_on_device(), hardware_)});
      } catch (const ConfigError&) {
        // It does not suit the model.
      }
    cut.label_fates.clear();
    std::vector<Config> homes = homes_of(cut);
    size_t before = bases_.size();
    bases_.resize(before + homes.size());
    parallel_for(homes.size(), [&](size_t i) {
      PolicyPlan full = plan_policy(named_config(homes[i], "full"), target_, hardware_);
      bases_[before + i] = make_base(homes[i], choices_.back(), full);
    });
  }

  // The formula's best of a list, few of them alike; and the best of each base that comes near.
  void choose(const std::vector<Split>& list) {
    std::map<const Base*, size_t> of_base;
    std::map<std::pair<const Base*, size_t>, size_t> alike;
    size_t count = 0;
    for (const Split& one : list) {
      if (one.seconds > list[0].seconds * (1 + kNear)) break;
      bool is_first_of_base = of_base[one.base]++ == 0;
      bool is_wanted = count < kWalkedBySlack && alike[{one.base, one.first}] < kWalkedAlike;
      if (!is_first_of_base && !is_wanted) continue;
      chosen_.emplace(std::tuple{one.base, one.first, one.others, one.layers}, one);
      ++alike[{one.base, one.first}];
      ++count;
    }
  }

  void walk_chosen() {
    std::vector<Split> splits;
    for (const auto& [key, one] : chosen_) splits.push_back(one);
    chosen_.clear();
    std::vector<Tried> walked(splits.size());
    parallel_for(splits.size(), [&](size_t i) { walked[i] = walk_fitting(splits[i]); });
    if (!splits.empty()) {
      size_t best = std::ranges::min_element(walked, is_before) - walked.begin();
      refine(splits[best], walked[best]);
    }
    add(std::move(walked));
  }

  std::vector<Split> ranked(const Slack& slack) const {
    std::vector<Split> list;
    for (const Base& base : bases_) {
      Formula formula(base, hardware_, slack.derate, slack.layers * bytes_of_a_layer(base));
      for (size_t first = 0; first < base.choices->for_any; ++first)
        for (size_t others = 0; others < base.choices->assignments.size(); ++others)
          if (auto one = formula.best(first, others, config_.offload_layers)) list.push_back(*one);
    }
    std::ranges::sort(list, {}, &Split::seconds);
    return list;
  }

  // Where it turns out not to fit, with transfers that start later, or with more layers of the
  // thriftier kind.
  Tried walk_fitting(Split& split) const {
    Tried tried = walk(config_of(split));
    if (tried.room.fits()) return tried;
    Split late = split;
    late.layers_ahead = kLate;
    Tried walked_late = walk(config_of(late)), shifted = shift(split, std::move(tried));
    if (!is_before(walked_late, shifted)) return shifted;
    split = late;
    return walked_late;
  }

  Tried shift(Split& split, Tried tried) const {
    constexpr int kAttempts = 3;
    const std::vector<offload::Assignment>& list = split.base->choices->assignments;
    bool may_shift = split.first != split.others && config_.offload_layers < 0;
    for (int i = 0; i < kAttempts && may_shift && !tried.room.fits(); ++i) {
      double more = list[split.first].kept_bytes - list[split.others].kept_bytes;
      if (more == 0) break;
      // More than there are numbers for, where kinds hardly differ.
      double shift = std::ceil(static_cast<double>(missing_bytes(tried.room)) / std::abs(more));
      double layers = split.layers + (more > 0 ? -shift : shift);
      if (layers < 1 || layers > split.base->choices->layers) break;
      split.layers = static_cast<int>(layers);
      tried = walk(config_of(split));
    }
    return tried;
  }

  // Around the best: other numbers of layers, and transfers that start earlier or later.
  void refine(Split best, Tried found) {
    auto try_all = [&](const std::vector<Split>& around) {
      std::vector<Tried> walked(around.size());
      parallel_for(around.size(), [&](size_t i) { walked[i] = walk(config_of(around[i])); });
      for (size_t i = 0; i < around.size(); ++i)
        if (is_before(walked[i], found)) {
          best = around[i];
          found = walked[i];
        }
      add(std::move(walked));
    };
    bool may_shift = best.first != best.others && config_.offload_layers < 0;
    for (int step : {4, 2, 1}) {
      std::vector<Split> around;
      for (int layers : {best.layers - step, best.layers + step})
        if (may_shift && layers > 0 && layers <= best.base->choices->layers) {
          around.push_back(best);
          around.back().layers = layers;
        }
      try_all(around);
    }
    if (!found.config.origins.contains("prefetch_layers") || is_set(config_, "prefetch_layers"))
      return;
    std::vector<Split> around{best, best};
    around[0].layers_ahead = 0.5;
    around[1].layers_ahead = 2;
    try_all(around);
  }

  // Each named policy where the formula finds it quickest, until one has fitted and the next is not
  // near.
  void walk_named() {
    struct Place {
      double seconds;
      Config config;
    };
    std::map<std::string, std::vector<Place>> places;
    for (const Base& base : bases_)
      for (const Named& named : named_.at(base.choices)) {
        // What the formula finds a little too large may fit.
        Formula formula(base, hardware_, 1, -bytes_of_a_layer(base));
        int layers = base.choices->layers - 1;
        if (formula.missing(named.first, named.last, layers) == 0)
          places[named.policy].push_back({formula.seconds(named.first, named.last, layers),
                                          named_config(base.config, named.policy)});
      }
    std::vector<std::vector<Tried>> walked(places.size());
    parallel_for(places.size(), [&](size_t i) {
      std::vector<Place>& list = std::next(places.begin(), static_cast<std::ptrdiff_t>(i))->second;
      std::ranges::sort(list, {}, &Place::seconds);
      double enough = INFINITY;
      for (const Place& place : list) {
        if (place.seconds > enough) break;
        walked[i].push_back(walk(place.config));
        if (walked[i].back().room.fits()) enough = std::min(enough, place.seconds * (1 + kNear));
      }
    });
    for (std::vector<Tried>& list : walked) add(std::move(list));
  }

  // What lacks least, all layers alike.
  void walk_thriftiest() {
    constexpr size_t kMost = 6;
    std::vector<std::pair<double, Split>> list;
    for (const Base& base : bases_)
      for (size_t i = 0; i < base.choices->for_any; ++i) {
        int layers = config_.offload_layers < 0 ? base.choices->layers
                                                : static_cast<int>(config_.offload_layers);
        const offload::Assignment& one = base.choices->assignments[i];
        list.push_back({Formula(base, hardware_, 1, 0).missing(one, one, layers),
                        {.base = &base, .first = i, .others = i, .layers = layers}});
      }
    std::ranges::stable_sort(list, {}, &std::pair<double, Split>::first);
    std::vector<Split> splits;
    for (const auto& [missing, one] : list)
      if (splits.size() < kMost &&
          std::ranges::find(splits, one.base, &Split::base) == splits.end())
        splits.push_back(one);
    std::vector<Tried> walked(splits.size());
    parallel_for(splits.size(), [&](size_t i) { walked[i] = walk(config_of(splits[i])); });
    add(std::move(walked));
  }

  Tried walk(const Config& config) const try {
    PolicyPlan plan = plan_policy(config, target_, hardware_);
    Tried tried{.config = config,
                .step_seconds = plan.estimate->step_seconds,
                .phases = plan.estimate->phases,
                .memory = plan.memory,
                .room = plan.room};
    for (const Event& event : plan.estimate->events)
      if (event.lane != Lane::compute) tried.moved_bytes += static_cast<double>(event.bytes);
    return tried;
  } catch (const ConfigError&) {
    // The first or the other layers, by themselves, read nothing of what they are to offload.
    return {.config = config, .room = kImpossible};
  }

  static int64_t missing_bytes(const Room& room) {
    return std::max<int64_t>(-room.device_spare_bytes, 0) +
           std::max<int64_t>(-room.host_spare_bytes, 0);
  }

  static bool is_before(const Tried& a, const Tried& b) {
    return std::pair{!a.room.fits(), a.step_seconds} < std::pair{!b.room.fits(), b.step_seconds};
  }

  void add(std::vector<Tried> walked) { std::ranges::move(walked, std::back_inserter(tried_)); }

  // Of what fits; INFINITY where nothing does.
  double best_seconds() const {
    double best = INFINITY;
    for (const Tried& one : tried_)
      if (one.room.fits()) best = std::min(best, one.step_seconds);
    return best;
  }

  // All that it can keep.
  static double bytes_of_a_layer(const Base& base) {
    return std::ranges::max(base.choices->assignments, {}, &offload::Assignment::kept_bytes)
        .kept_bytes;
  }

  std::optional<AutoChoice> finish() {
    std::erase_if(tried_, [](const Tried& one) { return one.room.device_spare_bytes == kNever; });
    std::ranges::stable_sort(tried_, is_before);
    auto is_same = [](const Tried& a, const Tried& b) {
      return a.step_seconds == b.step_seconds && chosen_keys(a.config) == chosen_keys(b.config);
    };
    tried_.erase(std::unique(tried_.begin(), tried_.end(), is_same), tried_.end());
    if (best_seconds() == INFINITY) return std::nullopt;
    auto slower = std::ranges::find_if(tried_, [&](const Tried& one) {
      return !one.room.fits() || one.step_seconds > tried_[0].step_seconds * (1 + kAsFast);
    });
    auto cost = [&](const Tried& one) {
      // In parts of a hundred: batches and results move in any case.
      double moved = std::round(100 * one.moved_bytes / (1 + tried_[0].moved_bytes));
      return std::tuple{moved, one.config.remat_policy == "custom", total_peak_bytes(one.memory)};
    };
    auto choice = std::min_element(tried_.begin(), slower,
                                   [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
    std::rotate(tried_.begin(), choice, choice + 1);
    return AutoChoice{std::move(tried_)};
  }

  const Config& config_;
  models::Target target_;
  Hardware hardware_;
  std::deque<LayerChoices> choices_;
  std::map<const LayerChoices*, std::vector<Named>> named_;
  std::vector<Base> bases_;
  std::map<std::tuple<const Base*, size_t, size_t, int>, Split> chosen_;  // to be walked
  std::vector<Tried> tried_;
};

// What is fetched later takes less of the device.
AutoChoice choose_with_late_transfers(const Config& config, models::Target target) {
  Config none_ahead = config, little_ahead = config;
  set(none_ahead, "prefetch_layers", &Config::prefetch_layers, 0.0);
  set(little_ahead, "prefetch_layers", &Config::prefetch_layers, 0.25);
  Search search(none_ahead, target);
  std::optional<AutoChoice> choice = search();
  if (!choice) search.refuse();
  std::optional<AutoChoice> other = Search(little_ahead, target)();
  if (other && other->tried[0].step_seconds < choice->tried[0].step_seconds) choice = other;
  return std::move(*choice);
}

}  // namespace

AutoChoice choose_policy(const Config& config, models::Target target) {
  if (Hardware hardware = *named_hardware(config); !models::same_device(hardware.target, target))
    throw ConfigError(location(config, "hardware") + ": found " + hardware.name +
                      ", a profile of " +
                      (target == models::Target::cpu ? "a GPU, expected that of a processor"
                                                     : "a processor, expected that of a GPU") +
                      " for remat_policy: auto (plan --measure makes this machine's)");
  Search search(config, target);
  if (std::optional<AutoChoice> choice = search()) return std::move(*choice);
  if (is_set(config, "prefetch_layers")) search.refuse();
  return choose_with_late_transfers(config, target);
}

Config with_chosen_policy(const Config& config, models::Target target, std::string& account) {
  if (config.remat_policy != offload::kAuto) return config;
  AutoChoice choice = choose_policy(config, target);
  account = text(choice);
  return choice.config();
}

}  // namespace longshore::trainer
