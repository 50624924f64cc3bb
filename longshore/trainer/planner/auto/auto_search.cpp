#include "longshore/trainer/planner/auto/auto_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <ranges>
#include <string>
#include <tuple>
#include <utility>

#include "longshore/base/parallel.h"
#include "longshore/trainer/planner/auto/auto_search_space.h"
#include "longshore/trainer/planner/auto/auto_split_simulation.h"

namespace longshore::trainer {
namespace {

using offload::Assignment;

// What the formula leaves unused, so that a plan which is the best by the formula fits when it is
// simulated, and is as fast.
struct Margin {
  double link_factor;  // the part of the link's rate that the formula counts on
  double layers;       // device memory for the values of that many layers, all that these can keep
};

// The formula can overestimate the memory that is in use at one moment, so this margin lets one
// layer too many keep its values. Without it the choice for Llama 3 8B on `rtx4090` with 19 GiB is
// 2.4 % slower.
constexpr Margin kOneLayerTooMany{1, -1};
// The margins that are always tried: also none at all, and some of the link, of the memory and of
// both, since a simulation takes up to 9 % longer than the formula says if copies fill the link.
// The values are a matter of judgement: leaving out any one of the last five changes the choices
// for Llama 3 8B on `rtx4090` and `h200` by no more than 0.1 %.
constexpr Margin kMargins[] = {kOneLayerTooMany, {1, 0}, {0.85, 0}, {0.6, 0}, {1, 1}, {0.85, 1}};
// The margins that are tried if, by the formula, they beat the best plan so far by kWorthwhileGain.
// Gaps in the arena can be as large as the values of several layers.
constexpr Margin kWiderMargins[] = {{1, 2}, {1, 4}, {1, 8}};
// A part of the step time: five times kEqualTimeTolerance, since trying a margin simulates dozens
// of plans.
constexpr double kWorthwhileGain = 0.005;

// The margins of a quick search: one for plans that have room to spare, and some of what the others
// try, of the link, of the memory or of both.
constexpr Margin kQuickMargins[] = {{1, 0}, {0.85, 1}, {1, 4}};

// Splits that are slower than the best one by more than this part, by the formula, are not
// simulated. The formula's times are mostly 1 to 6 % too low; with half this cutoff, two choices
// for Llama 3 8B on `rtx4090` are 0.8 % and 1.4 % slower.
constexpr double kRankingCutoff = 0.03;
// The number of plans that are simulated for a margin: twice as many as have sufficed for Llama 3
// 8B.
constexpr size_t kSimulationsOfMargin = 8;
// The number of these that may have the same base and the same assignment of the first layers,
// since such plans differ little. With only one, choices are up to 0.04 % slower.
constexpr size_t kSimulatesAlike = 2;
// The number of plans that a quick search simulates for a margin; bases have no simulations of
// their own.
constexpr size_t kQuickSimulationsOfMargin = 2;
// The assignments that it considers, of those that all layers can have, and of those that some can.
constexpr size_t kPromising = 8;
// The number of the smallest plans that are simulated if nothing fits, one for each base: bases
// differ most, and an error message reports the smallest plan.
constexpr size_t kSimulationsOfThriftiest = 6;

class Search {
 public:
  Search(const RunSpec& spec, Effort effort)
      : effort_(effort),
        spec_(spec),
        first_layers_(first_layers_set(spec.config())),
        bases_(base_plans(spec)),
        simulator_(spec) {}

  std::vector<SimulatedPlan> run() { return is_quick() ? run_quick() : run_thorough(); }

 private:
  std::vector<SimulatedPlan> run_quick() {
    for (const Margin& margin : kQuickMargins) {
      const std::vector<LayerSplit> splits = ranked(margin);
      for (size_t i = 0; i < std::min(splits.size(), kQuickSimulationsOfMargin); ++i)
        select(splits[i]);
    }
    simulate_selected();
    return std::move(simulated_);
  }

  std::vector<SimulatedPlan> run_thorough() {
    for (const Margin& margin : kMargins) select(ranked(margin));
    simulate_selected();
    simulate_named();
    for (const Margin& margin : kWiderMargins)
      if (const std::vector<LayerSplit> splits = ranked(margin);
          !splits.empty() &&
          splits[0].seconds < (1 - kWorthwhileGain) * fastest_seconds(simulated_)) {
        select(splits);
        simulate_selected();
      }
    if (fastest_seconds(simulated_) == INFINITY) simulate_thriftiest();
    return std::move(simulated_);
  }

  void add(std::vector<SimulatedPlan> simulated) {
    std::ranges::move(simulated, std::back_inserter(simulated_));
  }

  StepFormula formula_of(const BasePlan& base, const Margin& margin) const {
    return {base,
            *spec_.hardware(),
            {.link_factor = margin.link_factor,
             .device_bytes = margin.layers * base.choices->most_kept_bytes()}};
  }

  // The best split that fits for each pair of assignments, the quickest first. A quick search asks
  // for few pairs.
  std::vector<LayerSplit> ranked(const Margin& margin) const {
    std::vector<LayerSplit> splits;
    for (const BasePlan& base : bases_) {
      const StepFormula formula = formula_of(base, margin);
      const std::vector<size_t> others = is_quick() ? promising(formula, *base.choices)
                                                    : up_to(base.choices->assignments.size()),
                                firsts = first_layers_ == 0 ? up_to(1)
                                         : is_quick()       ? others
                                                            : up_to(base.choices->count_for_all);
      for (const size_t first : firsts)
        for (const size_t other : others)
          if (auto split = formula.best(first, other, first_layers_)) splits.push_back(*split);
    }
    if (is_quick())
      sort_by_time(
          splits, [](const LayerSplit& one) { return one.seconds; }, offloaded_bytes);
    else
      std::ranges::sort(splits, {}, &LayerSplit::seconds);
    return splits;
  }

  bool is_quick() const { return effort_ == Effort::quick; }

  static double offloaded_bytes(const LayerSplit& split) {
    const LayerChoices& choices = *split.base->choices;
    return choices.assignments[split.first].offloaded_bytes * split.layers +
           choices.assignments[split.others].offloaded_bytes * (choices.layers - split.layers);
  }

  // Of those that take the same time, those that offload less come first.
  template <class T, class Seconds, class Bytes>
  static void sort_by_time(std::vector<T>& list, Seconds seconds, Bytes bytes) {
    if (list.empty()) return;
    const double least = std::ranges::min(list | std::views::transform(seconds));
    std::ranges::sort(list, {}, [&](const T& one) {
      return std::pair{std::floor((seconds(one) / least - 1) / kEqualTimeTolerance), bytes(one)};
    });
  }

  static std::vector<size_t> up_to(size_t count) {
    std::vector<size_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), size_t{0});
    return numbers;
  }

  // The assignments with which a step is the quickest if all layers have them: of those that fit
  // then, and of those that do not, which some of the layers may have.
  static std::vector<size_t> promising(const StepFormula& formula, const LayerChoices& choices) {
    std::vector<std::pair<double, size_t>> fitting, too_large;
    for (size_t i = 0; i < choices.count_for_all; ++i) {
      const Assignment& all = choices.assignments[i];
      const bool fits = formula.missing_bytes(all, all, choices.layers) == 0;
      (fits ? fitting : too_large).push_back({formula.seconds(all, all, choices.layers), i});
    }
    std::vector<size_t> best;
    for (auto* list : {&fitting, &too_large}) {
      sort_by_time(
          *list, [](const auto& one) { return one.first; },
          [&](const auto& one) { return choices.assignments[one.second].offloaded_bytes; });
      for (size_t i = 0; i < std::min(list->size(), kPromising); ++i)
        best.push_back((*list)[i].second);
    }
    return best;
  }

  void select(const LayerSplit& split) {
    selected_.emplace(std::tuple{split.base, split.first, split.others, split.layers}, split);
  }

  // Selects the best splits of a ranking, but few that are alike, and the best of each base unless
  // it is slower by more than kRankingCutoff.
  void select(const std::vector<LayerSplit>& ranking) {
    std::map<const BasePlan*, size_t> of_base;
    std::map<std::pair<const BasePlan*, size_t>, size_t> alike;
    size_t count = 0;
    for (const LayerSplit& split : ranking) {
      if (split.seconds > ranking[0].seconds * (1 + kRankingCutoff)) break;
      const bool is_first_of_base = of_base[split.base]++ == 0;
      size_t& simulates_alike = alike[{split.base, split.layers == 0 ? split.others : split.first}];
      if (!is_first_of_base &&
          (count >= kSimulationsOfMargin || simulates_alike >= kSimulatesAlike))
        continue;
      select(split);
      ++simulates_alike;
      ++count;
    }
  }

  void simulate_selected() {
    std::vector<LayerSplit> splits;
    for (const auto& [key, split] : selected_) splits.push_back(split);
    selected_.clear();
    if (splits.empty()) return;
    std::vector<SimulatedPlan> simulated(splits.size());
    parallel_for(splits.size(),
                 [&](size_t i) { simulated[i] = simulator_.simulate_fitting(splits[i]); });
    if (!is_quick()) {
      const size_t best = std::ranges::min_element(simulated, is_better) - simulated.begin();
      add(simulator_.simulate_around(splits[best], simulated[best]));
    }
    add(std::move(simulated));
  }

  // A base under a named policy.
  struct NamedPlan {
    double seconds;  // the step time by the formula
    Config config;
  };

  // The bases with which a policy fits by the formula, for each policy by its name.
  std::map<std::string, std::vector<NamedPlan>> named_plans() const {
    std::map<std::string, std::vector<NamedPlan>> plans;
    for (const BasePlan& base : bases_) {
      const StepFormula formula = formula_of(base, kOneLayerTooMany);
      const int layers = first_layers_.value_or(base.choices->layers - 1);  // all but the last
      for (const NamedPolicy& named : base.choices->named)
        if (formula.missing_bytes(named.layers, named.last_layer, layers) == 0)
          plans[named.name].push_back({formula.seconds(named.layers, named.last_layer, layers),
                                       named_config(base.config, named.name)});
    }
    return plans;
  }

  // Simulates the plans of each policy in the formula's order, until one fits and the next is
  // slower than it by more than kRankingCutoff.
  void simulate_named() {
    std::map<std::string, std::vector<NamedPlan>> plans = named_plans();
    std::vector<std::vector<SimulatedPlan>> simulated(plans.size());
    parallel_for(plans.size(), [&](size_t i) {
      std::vector<NamedPlan>& of_policy =
          std::next(plans.begin(), static_cast<std::ptrdiff_t>(i))->second;
      std::ranges::sort(of_policy, {}, &NamedPlan::seconds);
      double enough = INFINITY;
      for (const NamedPlan& plan : of_policy) {
        if (plan.seconds > enough) break;
        simulated[i].push_back(simulated_plan(spec_.with(plan.config)));
        if (simulated[i].back().fits())
          enough = std::min(enough, plan.seconds * (1 + kRankingCutoff));
      }
    });
    for (std::vector<SimulatedPlan>& of_policy : simulated) add(std::move(of_policy));
  }

  // Simulates the plans that lack the fewest bytes, at most one for each base. All their layers
  // have the same assignment.
  void simulate_thriftiest() {
    std::vector<std::pair<double, LayerSplit>> splits;  // with the bytes that are missing
    for (const BasePlan& base : bases_) {
      const StepFormula formula(base, *spec_.hardware(), {});
      const int layers = first_layers_.value_or(base.choices->layers);
      for (size_t i = 0; i < base.choices->count_for_all; ++i) {
        const Assignment& all = base.choices->assignments[i];
        splits.push_back({formula.missing_bytes(all, all, layers),
                          {.base = &base, .first = i, .others = i, .layers = layers}});
      }
    }
    std::ranges::stable_sort(splits, {}, &std::pair<double, LayerSplit>::first);
    std::vector<LayerSplit> thriftiest;
    for (const auto& [missing, split] : splits)
      if (thriftiest.size() < kSimulationsOfThriftiest &&
          std::ranges::find(thriftiest, split.base, &LayerSplit::base) == thriftiest.end())
        thriftiest.push_back(split);
    add(simulator_.simulate_each(thriftiest));
  }

  Effort effort_;
  RunSpec spec_;
  std::optional<int> first_layers_;  // if the config sets their number
  std::vector<BasePlan> bases_;
  SplitSimulator simulator_;
  // The splits to simulate next, by base, assignments of the first and of the other layers, and
  // number of first layers.
  std::map<std::tuple<const BasePlan*, size_t, size_t, int>, LayerSplit> selected_;
  std::vector<SimulatedPlan> simulated_;
};

}  // namespace

std::vector<SimulatedPlan> search(const RunSpec& spec, Effort effort) {
  return Search(spec, effort).run();
}

}  // namespace longshore::trainer
