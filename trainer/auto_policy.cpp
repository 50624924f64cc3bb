#include "trainer/auto_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/nearest.h"
#include "base/parallel.h"
#include "offload/assignments.h"
#include "trainer/config_keys.h"
#include "trainer/model_config.h"
#include "trainer/policy_plan.h"

namespace longshore::trainer {
namespace {

using offload::Assignment;
using offload::bytes_text;
using offload::Event;
using offload::Fate;
using offload::Hardware;
using offload::Lane;
using offload::MemoryKind;
using offload::Phase;

constexpr double kSame = 1e-3;  // relative: plans that close are as fast as each other
// The formula knows no waiting for a single value; a plan that it finds for a slower link has some
// slack.
constexpr double kDerates[] = {1, 0.85, 0.6};
constexpr size_t kWalkedByDerate = 10;
constexpr size_t kWalkedAlike = 2;  // of these, with the same first layers
constexpr double kNear = 0.03;      // what the formula finds so much slower is not walked
constexpr const char* kOrigin = "auto";

bool is_set(const Config& config, const char* key) { return config.origins.contains(key); }

template <class T>
void set(Config& config, const char* key, T Config::*member, const T& value) {
  if (config.*member == value) return;
  config.*member = value;
  config.origins[key] = kOrigin;
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

// --- the formula

// How long lanes are busy in one of the two passes.
struct Load {
  double compute = 0, to_host = 0, to_device = 0, on_host = 0;

  double seconds() const { return std::max({compute, to_host, to_device, on_host}); }
};

struct Loads {
  Load forward, backward;

  double seconds() const { return forward.seconds() + backward.seconds(); }
};

// An update counts for the pass that it lies in.
Loads loads_of(const Estimate& estimate) {
  double turn = estimate.step_seconds;
  for (const Event& event : estimate.events)
    if (event.lane == Lane::compute && event.place.phase == Phase::backward)
      turn = std::min(turn, event.span.begin);
  Loads loads;
  for (const Event& event : estimate.events) {
    bool is_forward = event.place.phase == Phase::forward ||
                      (event.place.phase == Phase::optimizer && event.span.begin < turn);
    Load& load = is_forward ? loads.forward : loads.backward;
    double& busy = event.lane == Lane::compute          ? load.compute
                   : event.lane == Lane::device_to_host ? load.to_host
                   : event.lane == Lane::host_to_device ? load.to_device
                                                        : load.on_host;
    busy += event.span.end - event.span.begin;
  }
  return loads;
}

// Of one cut: what a layer can do, and what the policy `full` takes.
struct Cut {
  std::vector<Assignment> assignments;
  std::vector<size_t> on_device;  // of each the one that keeps what it offloads
  Assignment full;
  double layers = 0, micro_batches = 0;
};

// A config with homes, walked under `full`: what layers do besides is added to that.
struct Base {
  Config config;
  const Cut* cut = nullptr;
  Loads loads;
  double step_seconds = 0;
  Room room;
};

struct Candidate {
  const Base* base = nullptr;
  size_t first = 0, others = 0;  // assignments
  int layers = 0;                // that are `first`
  double seconds = 0;            // by the formula
};

// A formula that is linear in the number of layers that are first.
class Formula {
 public:
  Formula(const Base& base, const Hardware& hardware, double derate)
      : base_(base),
        cut_(*base.cut),
        shares_memory_(hardware.target != models::Target::cuda),
        derate_(derate),
        hardware_(hardware) {}

  // The best number of layers, if any fits.
  std::optional<Candidate> best(size_t first, size_t others) const {
    const Assignment &a = cut_.assignments[first], &b = cut_.assignments[others];
    double low = 0, high = cut_.layers;
    auto bound = [&](double spare, double bytes_a, double bytes_b) {
      double over = cut_.layers * bytes_b - spare, less = bytes_b - bytes_a;
      if (less > 0)
        low = std::max(low, std::ceil(over / less));
      else if (less < 0)
        high = std::min(high, std::floor(over / less));
      else if (over > 0)
        high = -1;
    };
    double kept_a = a.kept_bytes - cut_.full.kept_bytes,
           kept_b = b.kept_bytes - cut_.full.kept_bytes;
    double device = static_cast<double>(base_.room.device_spare_bytes),
           host = static_cast<double>(base_.room.host_spare_bytes);
    if (shares_memory_) {
      bound(device, kept_a + a.offloaded_bytes, kept_b + b.offloaded_bytes);
    } else {
      bound(device, kept_a, kept_b);
      bound(host, a.offloaded_bytes, b.offloaded_bytes);
    }
    if (low > high) return std::nullopt;

    std::vector<double> counts{low, high};
    // Where the link becomes the limit.
    for (const Load& load : {base_.loads.forward, base_.loads.backward}) {
      double rate = cut_.micro_batches * (a.offloaded_bytes - b.offloaded_bytes) / link();
      if (rate == 0) continue;
      double at = (load.compute - load.to_host -
                   cut_.micro_batches * cut_.layers * b.offloaded_bytes / link()) /
                  rate;
      for (double count : {std::floor(at), std::ceil(at)})
        if (count > low && count < high) counts.push_back(count);
    }
    Candidate best{.base = &base_, .first = first, .others = others, .seconds = INFINITY};
    for (double count : counts)
      if (double one = seconds(a, b, count); one < best.seconds) {
        best.seconds = one;
        best.layers = static_cast<int>(count);
      }
    return best;
  }

  double seconds(const Assignment& a, const Assignment& b, double count) const {
    double rest = cut_.layers - count;
    auto sum = [&](double of_a, double of_b) {
      return cut_.micro_batches * (count * of_a + rest * of_b);
    };
    double copies = sum(a.offloaded_bytes, b.offloaded_bytes) / link();
    Loads loads = base_.loads;
    loads.forward.to_host += copies;
    loads.backward.to_device += copies;
    loads.backward.compute += sum(a.backward_seconds - cut_.full.backward_seconds,
                                  b.backward_seconds - cut_.full.backward_seconds);
    return base_.step_seconds + loads.seconds() - base_.loads.seconds();
  }

 private:
  double link() const { return derate_ * hardware_.link_to_host.at(1e8); }

  const Base& base_;
  const Cut& cut_;
  bool shares_memory_;
  double derate_;
  const Hardware& hardware_;
};

// --- what is written down

std::vector<std::string> fate_texts(Fate first, Fate others) {
  if (first == others && first != Fate::offload) return {name(first)};
  return {name(first), name(others)};
}

Config config_of(const Candidate& candidate) {
  const Cut& cut = *candidate.base->cut;
  const offload::Policy &first = cut.assignments[candidate.first].policy,
                        &others = cut.assignments[candidate.others].policy;
  Config config = candidate.base->config;
  config.remat_policy = "custom";
  config.origins["remat_policy"] = kOrigin;
  bool has_first = candidate.layers > 0, has_others = candidate.layers < cut.layers;
  auto write = [&](const std::string& label, Fate fate, Fate fate_of_others) {
    config.label_fates[label] =
        fate_texts(has_first ? fate : fate_of_others, has_others ? fate_of_others : fate);
    config.origins[label] = kOrigin;
  };
  for (const auto& [label, fate] : first.fates) write(label, fate, others.fates.at(label));
  write(offload::kUnlabelled, first.otherwise, others.otherwise);
  bool is_split = has_first && has_others && !(first == others);
  if (is_split || (has_first ? first : others).offloads())
    set<int64_t>(config, "offload_layers", &Config::offload_layers, candidate.layers);
  return config;
}

Config named_config(const Config& base, const std::string& policy) {
  Config config = base;
  config.remat_policy = policy;
  config.origins["remat_policy"] = kOrigin;
  return config;
}

// "offload query_proj, key_proj; keep context": what is neither is computed again.
std::string fates_text(const Config& config, size_t which) {
  std::map<std::string, std::vector<std::string>> labels;  // by fate
  for (const Key& key : config_keys())
    if (auto fates = config.label_fates.find(key.name); fates != config.label_fates.end())
      labels[fates->second[std::min(which, fates->second.size() - 1)]].push_back(key.name);
  if (!labels.contains("remat") && !labels.contains("offload")) return "keep all";
  std::erase(labels["device"], "decoder_layer_input");  // which somebody has to keep
  std::string text;
  for (auto [fate, verb] : {std::pair{"offload", "offload "}, std::pair{"device", "keep "}})
    if (!labels[fate].empty()) text += (text.empty() ? "" : "; ") + (verb + join(labels[fate]));
  return text.empty() ? "compute all again" : text;
}

std::string what(const Config& config) {
  std::string text = config.remat_policy;
  if (text == "custom") {
    int64_t layers = config.offload_layers;
    bool differs = std::ranges::any_of(config.label_fates,
                                       [](const auto& fates) { return fates.second.size() > 1; });
    if (!differs || layers == config.base_num_decoder_layers)
      text = fates_text(config, 0);
    else if (layers == 0)
      text = fates_text(config, 1);
    else
      text = fmt::format("first {} layers: {}; last {}: {}", layers, fates_text(config, 0),
                         config.base_num_decoder_layers - layers, fates_text(config, 1));
  }
  auto add = [&](bool is_so, const std::string& said) {
    if (is_so) text += ", " + said;
  };
  add(config.parameter_memory_host_offload, "parameters on the host");
  add(config.gradient_memory_host_offload, "gradients on the host");
  add(config.optimizer_memory_host_offload, config.optimizer_compute == OptimizerCompute::host
                                                ? "optimizer on the host, computed there"
                                                : "optimizer on the host");
  add(config.auto_micro_batch, fmt::format("micro-batches of {}", config.per_device_batch_size));
  return text;
}

// --- the search

class Search {
 public:
  Search(const Config& config, models::Target target)
      : config_(config),
        target_(target),
        hardware_(*named_hardware(config)),
        limits_(memory_limits(config)) {}

  AutoChoice operator()() {
    make_bases();
    std::vector<Candidate> candidates = candidates_worth_walking();
    std::vector<Tried> tried = walk_all(candidates);
    if (!candidates.empty()) {
      size_t best = std::min_element(tried.begin(), tried.end(), is_before) - tried.begin();
      refine(candidates[best], tried[best], tried);
    }
    std::vector<Config> named = named_worth_walking();
    size_t unnamed = tried.size();
    tried.resize(unnamed + named.size());
    parallel_for(named.size(), [&](size_t i) { tried[unnamed + i] = walk(named[i]); });
    if (std::ranges::none_of(tried, [](const Tried& one) { return one.room.fits(); })) {
      std::vector<Candidate> thrifty = thriftiest();
      std::ranges::move(walk_all(thrifty), std::back_inserter(tried));
    }
    return finish(std::move(tried));
  }

 private:
  static const models::Stage& scan_of(const models::Model& model) {
    return *std::find_if(model.stages.begin(), model.stages.end(),
                         [](const models::Stage& stage) { return stage.is_scan(); });
  }

  std::map<std::string, Fate> fixed_fates() const {
    std::map<std::string, Fate> fixed;
    for (const auto& [label, fates] : config_.label_fates)
      for (Fate fate : {Fate::keep, Fate::offload, Fate::remat})
        if (fates[0] == name(fate)) fixed[label] = fate;
    return fixed;
  }

  Cut make_cut(const Config& config) const {
    models::Model model = make_model(config, target_);
    const models::Stage& stage = scan_of(model);
    std::map<std::string, Fate> fixed = fixed_fates();
    offload::make_policy("custom", fixed, stage.programs[0]);  // throws where they do not suit
    Cut cut{.assignments = offload::assignments(stage, fixed, hardware_),
            .full = assign(stage, offload::make_policy("full", {}, stage.programs[0]), hardware_),
            .layers = static_cast<double>(stage.layers.size()),
            .micro_batches = static_cast<double>(config.gradient_accumulation_steps)};
    for (size_t i = 0, n = cut.assignments.size(); i < n; ++i) {
      if (cut.assignments[i].policy.offloads()) {
        offload::Policy kept = cut.assignments[i].policy.kept_on_device();
        cut.on_device.push_back(cut.assignments.size());
        cut.assignments.push_back(assign(stage, kept, hardware_));
      } else {
        cut.on_device.push_back(i);
      }
    }
    for (size_t i = cut.on_device.size(); i < cut.assignments.size(); ++i)
      cut.on_device.push_back(i);
    return cut;
  }

  void make_bases() {
    std::vector<Config> cuts = cuts_of(config_);
    for (Config& cut : cuts) {
      cut.label_fates.clear();
      cuts_.push_back(make_cut(cut));
    }
    for (size_t i = 0; i < cuts.size(); ++i)
      for (const Config& homes : homes_of(cuts[i]))
        bases_.push_back({.config = homes, .cut = &cuts_[i]});
    parallel_for(bases_.size(), [&](size_t i) {
      PolicyPlan plan = plan_policy(named_config(bases_[i].config, "full"), target_, hardware_);
      bases_[i].loads = loads_of(*plan.estimate);
      bases_[i].step_seconds = plan.estimate->step_seconds;
      bases_[i].room = plan.room;
    });
  }

  std::vector<Tried> walk_all(std::vector<Candidate>& candidates) const {
    std::vector<Tried> tried(candidates.size());
    parallel_for(tried.size(), [&](size_t i) { tried[i] = walk_fitting(candidates[i]); });
    return tried;
  }

  // The formula's best, few of them alike, for each rate of the link; and the best of each base
  // that comes near.
  std::vector<Candidate> candidates_worth_walking() const {
    std::map<std::tuple<const Base*, size_t, size_t, int>, Candidate> chosen;
    auto choose = [&](const Candidate& one) {
      return chosen.emplace(std::tuple{one.base, one.first, one.others, one.layers}, one).second;
    };
    for (double derate : kDerates) {
      std::vector<Candidate> list;
      for (const Base& base : bases_) std::ranges::move(of(base, derate), std::back_inserter(list));
      std::sort(list.begin(), list.end(), is_faster);
      std::map<const Base*, size_t> of_base;
      std::map<std::pair<const Base*, size_t>, size_t> alike;
      size_t count = 0;
      for (const Candidate& one : list) {
        if (one.seconds > list[0].seconds * (1 + kNear)) break;
        bool is_first_of_base = of_base[one.base]++ == 0;
        bool is_wanted = count < kWalkedByDerate && alike[{one.base, one.first}] < kWalkedAlike;
        if (!is_first_of_base && !is_wanted) continue;
        choose(one);
        ++alike[{one.base, one.first}];
        ++count;
      }
    }
    std::vector<Candidate> result;
    for (const auto& [key, one] : chosen) result.push_back(one);
    return result;
  }

  static bool is_faster(const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; }

  std::vector<Candidate> of(const Base& base, double derate) const {
    std::vector<Candidate> list;
    Formula formula(base, hardware_, derate);
    for (size_t first = 0; first < base.cut->assignments.size(); ++first)
      for (size_t others = 0; others < base.cut->assignments.size(); ++others)
        if (std::optional<Candidate> one = formula.best(first, others); one && may_split(*one))
          list.push_back(*one);
    return list;
  }

  // Where the number of layers is given, only that.
  bool may_split(const Candidate& one) const {
    return config_.offload_layers < 0 || one.first == one.others ||
           one.layers == config_.offload_layers;
  }

  // All layers as the assignment that keeps least, or without sending anything: those that lack
  // least.
  std::vector<Candidate> thriftiest() const {
    constexpr size_t kMost = 6;
    std::vector<std::pair<double, Candidate>> list;
    for (const Base& base : bases_)
      for (size_t i = 0; i < base.cut->assignments.size(); ++i) {
        const Assignment& one = base.cut->assignments[i];
        double kept = base.cut->layers * (one.kept_bytes - base.cut->full.kept_bytes);
        double sent = base.cut->layers * one.offloaded_bytes;
        double missing = std::max(0.0, kept - static_cast<double>(base.room.device_spare_bytes)) +
                         std::max(0.0, sent - static_cast<double>(base.room.host_spare_bytes));
        list.push_back({missing, {&base, i, i, static_cast<int>(base.cut->layers), INFINITY}});
      }
    std::stable_sort(list.begin(), list.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Candidate> result;
    for (const auto& [missing, one] : list)
      if (result.size() < kMost &&
          std::ranges::find(result, one.base, &Candidate::base) == result.end())
        result.push_back(one);
    return result;
  }

  // Each named policy, where the formula finds it quickest or nearly so.
  std::vector<Config> named_worth_walking() const {
    std::vector<Config> list;
    if (!config_.label_fates.empty()) return list;
    models::Model model = make_model(config_, target_);
    const models::Program& layer = scan_of(model).programs[0];
    for (const offload::PolicyInfo& info : offload::policies()) {
      if (info.name == "custom") continue;
      std::vector<std::pair<double, const Base*>> ranked;
      try {
        offload::Policy policy = offload::make_policy(info.name, {}, layer);
        for (const Base& base : bases_)
          if (auto seconds = seconds_of_named(base, policy)) ranked.push_back({*seconds, &base});
      } catch (const ConfigError&) {
        continue;  // does not suit the model
      }
      std::sort(ranked.begin(), ranked.end());
      for (const auto& [seconds, base] : ranked)
        if (seconds <= ranked[0].first * (1 + kNear))
          list.push_back(named_config(base->config, info.name));
    }
    return list;
  }

  // By the formula, unless it finds that it lacks much.
  std::optional<double> seconds_of_named(const Base& base, const offload::Policy& policy) const {
    constexpr double kMuch = 0.05;  // of the device's memory: the formula is not exact
    models::Model model = make_model(base.config, target_);
    const models::Stage& stage = scan_of(model);
    Assignment first = assign(stage, policy, hardware_),
               last = assign(stage, policy.kept_on_device(), hardware_);
    double layers = base.cut->layers;
    double kept =
        (layers - 1) * first.kept_bytes + last.kept_bytes - layers * base.cut->full.kept_bytes;
    double seconds = Formula(base, hardware_, 1).seconds(first, last, layers - 1);
    double spare = static_cast<double>(base.room.device_spare_bytes) +
                   kMuch * static_cast<double>(hardware_.device_bytes);
    return kept > spare ? std::nullopt : std::optional(seconds);
  }

  Tried walk(const Config& config) const {
    PolicyPlan plan = plan_policy(config, target_, hardware_);
    Tried tried{.config = config,
                .what = what(config),
                .step_seconds = plan.estimate->step_seconds,
                .phases = plan.estimate->phases,
                .memory = plan.memory,
                .room = plan.room};
    for (const Event& event : plan.estimate->events)
      if (event.lane != Lane::compute) tried.moved_bytes += static_cast<double>(event.bytes);
    return tried;
  }

  // With more layers of the thriftier kind where it turns out not to fit.
  Tried walk_fitting(Candidate& candidate) const {
    constexpr int kAttempts = 3;
    Tried tried = walk(config_of(candidate));
    for (int i = 0; i < kAttempts && !tried.room.fits(); ++i) {
      int shift = shift_that_fits(candidate, tried.room);
      int layers = candidate.layers + shift;
      if (shift == 0 || layers < 0 || layers > candidate.base->cut->layers) break;
      candidate.layers = layers;
      tried = walk(config_of(candidate));
    }
    return tried;
  }

  int shift_that_fits(const Candidate& candidate, const Room& room) const {
    const Assignment &a = candidate.base->cut->assignments[candidate.first],
                     &b = candidate.base->cut->assignments[candidate.others];
    if (config_.offload_layers >= 0) return 0;
    double kept = a.kept_bytes - b.kept_bytes, sent = a.offloaded_bytes - b.offloaded_bytes;
    if (hardware_.target != models::Target::cuda && !limits_.device_bytes)
      kept = sent = kept + sent;
    int least = 0, most = 0;
    for (auto [spare, more] :
         {std::pair{room.device_spare_bytes, kept}, std::pair{room.host_spare_bytes, sent}}) {
      if (spare >= 0) continue;
      if (more == 0) return 0;
      int layers = static_cast<int>(std::ceil(static_cast<double>(-spare) / std::abs(more)));
      least = std::min(least, more > 0 ? -layers : 0);
      most = std::max(most, more > 0 ? 0 : layers);
    }
    return least < 0 && most > 0 ? 0 : least + most;
  }

  // Other numbers of layers around the best.
  void refine(Candidate best, Tried found, std::vector<Tried>& tried) const {
    if (best.first == best.others || config_.offload_layers >= 0) return;
    for (int step : {4, 2, 1}) {
      std::vector<Candidate> around;
      for (int layers : {best.layers - step, best.layers + step})
        if (layers >= 0 && layers <= best.base->cut->layers) {
          around.push_back(best);
          around.back().layers = layers;
        }
      std::vector<Tried> walked(around.size());
      parallel_for(around.size(), [&](size_t i) { walked[i] = walk(config_of(around[i])); });
      for (size_t i = 0; i < around.size(); ++i) {
        if (is_before(walked[i], found)) {
          best = around[i];
          found = walked[i];
        }
        tried.push_back(std::move(walked[i]));
      }
    }
  }

  static bool is_before(const Tried& a, const Tried& b) {
    return std::pair{!a.room.fits(), a.step_seconds} < std::pair{!b.room.fits(), b.step_seconds};
  }

  AutoChoice finish(std::vector<Tried> tried) const {
    std::stable_sort(tried.begin(), tried.end(), is_before);
    auto is_same = [](const Tried& a, const Tried& b) {
      return a.what == b.what && a.step_seconds == b.step_seconds;
    };
    tried.erase(std::unique(tried.begin(), tried.end(), is_same), tried.end());
    if (!tried[0].room.fits()) refuse(tried);
    auto end_of_fast = std::find_if(tried.begin(), tried.end(), [&](const Tried& one) {
      return !one.room.fits() || one.step_seconds > tried[0].step_seconds * (1 + kSame);
    });
    auto cost = [&](const Tried& one) {
      // Batches and results move in any case.
      double states = std::round(100 * one.moved_bytes / (1 + tried[0].moved_bytes));
      return std::tuple{states, one.config.remat_policy == "custom", total_peak_bytes(one.memory)};
    };
    auto choice = std::min_element(tried.begin(), end_of_fast,
                                   [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
    std::rotate(tried.begin(), choice, choice + 1);
    return {std::move(tried)};
  }

  [[noreturn]] void refuse(const std::vector<Tried>& tried) const {
    auto missing = [](const Room& room) {
      return std::max<int64_t>(-room.device_spare_bytes, 0) +
             std::max<int64_t>(-room.host_spare_bytes, 0);
    };
    const Tried& least = *std::min_element(
        tried.begin(), tried.end(),
        [&](const Tried& a, const Tried& b) { return missing(a.room) < missing(b.room); });
    throw PlanError(fmt::format(
        "{}: remat_policy auto: of {} plans none fits {}. The smallest ({}) takes device {}, host "
        "{}; fits: {}. Besides, with\n{}",
        config_.config_file, tried.size(), hardware_.name, least.what,
        bytes_text(trainer::of(least.memory, MemoryKind::device).peak_bytes),
        bytes_text(trainer::of(least.memory, MemoryKind::pinned_host).peak_bytes),
        fits_text(least.room), what_helps(least.config, target_)));
  }

  const Config& config_;
  models::Target target_;
  Hardware hardware_;
  MemoryLimits limits_;
  std::vector<Cut> cuts_;
  std::vector<Base> bases_;
};

// What a plan does more of than the choice.
std::string why(const Tried& one, const Tried& choice) {
  if (!one.room.fits()) return "does not fit, " + fits_text(one.room);
  double slower = one.step_seconds - choice.step_seconds;
  if (slower <= kSame * choice.step_seconds)
    return one.moved_bytes > choice.moved_bytes
               ? fmt::format("no faster, and moves {} more",
                             bytes_text(static_cast<int64_t>(one.moved_bytes - choice.moved_bytes)))
               : "no faster";
  const Phases &a = one.phases, &b = choice.phases;
  std::pair<double, const char*> most{0, "takes longer"};
  for (auto part :
       {std::pair{a.recompute - b.recompute, "computes {:.4f} s more again"},
        std::pair{a.exposed_transfer - b.exposed_transfer, "waits {:.4f} s more for copies"},
        std::pair{a.exposed_host - b.exposed_host, "waits {:.4f} s more for the host"},
        std::pair{a.forward + a.backward + a.optimizer - b.forward - b.backward - b.optimizer,
                  "computes {:.4f} s more"}})
    if (part.first > most.first) most = part;
  return fmt::format(fmt::runtime(most.second), most.first);
}

}  // namespace

AutoChoice choose_policy(const Config& config, models::Target target) {
  if (Hardware hardware = *named_hardware(config); hardware.target != target)
    throw ConfigError(location(config, "hardware") + ": found " + hardware.name +
                      ", a profile of " +
                      (target == models::Target::cpu ? "a GPU, expected that of a processor"
                                                     : "a processor, expected that of a GPU") +
                      " for remat_policy: auto (plan --measure makes this machine's)");
  return Search(config, target)();
}

Config with_chosen_policy(const Config& config, models::Target target, std::string& account) {
  if (config.remat_policy != offload::kAuto) return config;
  AutoChoice choice = choose_policy(config, target);
  account = text(choice);
  return choice.config();
}

std::vector<std::pair<std::string, std::string>> chosen_keys(const Config& config) {
  std::vector<std::pair<std::string, std::string>> chosen;
  for (const Key& key : config_keys())
    if (auto origin = config.origins.find(key.name);
        origin != config.origins.end() && origin->second == kOrigin)
      chosen.emplace_back(key.name, value_text(key, config));
  return chosen;
}

std::string text(const AutoChoice& choice) {
  constexpr size_t kRunnersUp = 5;
  const Tried& best = choice.tried[0];
  std::string result =
      fmt::format("remat_policy auto, of {} plans walked: {}\n", choice.tried.size(), best.what);
  result +=
      fmt::format("  {:>9} {:>8} {:>12} {:>12}\n", "step s", "slower", "device peak", "host peak");
  auto line = [&](const Tried& one, const std::string& remark) {
    result += fmt::format("  {:>9.4f} {:>6.1f} % {:>12} {:>12}  {}{}\n", one.step_seconds,
                          100 * (one.step_seconds / best.step_seconds - 1),
                          bytes_text(of(one.memory, MemoryKind::device).peak_bytes),
                          bytes_text(of(one.memory, MemoryKind::pinned_host).peak_bytes), one.what,
                          remark);
  };
  line(best, "");
  std::map<std::string, bool> shown;  // named policies, once each
  size_t others = 0;
  for (size_t i = 1; i < choice.tried.size(); ++i) {
    const Tried& one = choice.tried[i];
    bool is_named = one.config.remat_policy != "custom";
    if (is_named ? shown[one.config.remat_policy] : others >= kRunnersUp || !one.room.fits())
      continue;
    (is_named ? shown[one.config.remat_policy] : (++others, shown[""])) = true;
    line(one, ": " + why(one, best));
  }
  result += "the choice as a config says it:\n";
  for (const auto& [key, value] : chosen_keys(best.config))
    result += "  " + key + ": " + value + "\n";
  return result;
}

}  // namespace longshore::trainer
