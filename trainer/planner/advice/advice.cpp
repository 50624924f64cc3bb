#include "trainer/planner/advice/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/parallel.h"
#include "trainer/config/validate.h"
#include "trainer/planner/advice/memory_suggestions.h"
#include "trainer/planner/auto/auto_account.h"
#include "trainer/planner/auto/auto_policy.h"
#include "trainer/planner/auto/auto_search_space.h"
#include "trainer/planner/policy_plan.h"
#include "trainer/planner/step_trial.h"

namespace longshore::trainer {
namespace {

using offload::Action;
using offload::bytes_text;
using offload::Hardware;
using offload::MemoryKind;

// A part of the step time: smaller gains have turned out to be losses on real machines.
constexpr double kReliableGain = 0.04;
// A part of the step time: smaller gains are printed as 0.0 %.
constexpr double kNegligibleGain = 0.0005;
// A part of the step time: for less, a setting that changes what is trained on is not advised.
constexpr double kGainWorthOtherResults = 0.01;

// The fastest link that rate_that_pays() tries, as a multiple of the machine's. No link today is
// that fast.
constexpr double kFastestLink = 64;
// rate_that_pays() finds the rate to within this factor, which is closer than the profiles' rates
// are to those of real machines.
constexpr double kRatePrecision = 1.05;
// The bytes of a copy that is so large that a link reaches its full rate.
constexpr double kLargeCopyBytes = 1e9;

// A setting by which updates may take less time. Where an update is computed changes no result, and
// is for remat_policy: auto to choose.
struct Lever {
  bool (*applies)(const Config&);
  void (*make)(Config&);
  bool changes_results;
  const char* why;
};

constexpr Lever kLevers[] = {
    {[](const Config& c) {
       return c.gradient_clipping_threshold > 0 &&
              c.gradient_clipping == GradientClipping::global_norm &&
              c.on_non_finite == OnNonFinite::stop;
     },
     [](Config& c) { c.gradient_clipping = GradientClipping::previous_global_norm; }, true,
     "updates need not wait for the norm of all gradients, which are clipped by that of the step "
     "before; gradient_clipping_threshold=0 would save as much and clip nothing"},
    {[](const Config& c) { return c.moment_dtype != MomentDtype::block8; },
     [](Config& c) { c.moment_dtype = MomentDtype::block8; }, true,
     "moments in 8 bits are less to read, to write and to move"},
    {[](const Config& c) {
       return c.optimizer_memory_host_offload && c.optimizer_compute == OptimizerCompute::device &&
              c.remat_policy != offload::kAuto;
     },
     [](Config& c) { c.optimizer_compute = OptimizerCompute::host; }, false,
     "the host updates what lives there"},
    {[](const Config& c) {
       return c.optimizer_compute == OptimizerCompute::host && c.remat_policy != offload::kAuto;
     },
     [](Config& c) { c.optimizer_compute = OptimizerCompute::device; }, false,
     "the device updates what comes and goes"}};

// A change of the plan, or none, with its times on the machine.
struct Trial {
  StepTrial plans;
  StepTimes times;
};

// Lines are printed in the order of their ranks.
enum class Rank {
  policy,   // policies that are faster
  gain,     // the gain or loss by a change, or by what the config already has
  no_room,  // changes that do not fit
  home,     // the cost of new homes
};

struct Line {
  Rank rank = Rank::gain;
  double gain = 0;  // seconds of a step; within a rank, the largest gain comes first
  std::string text;
};

class Adviser {
 public:
  Adviser(const Config& config, const TrainingPlans& plans, const Room& room,
          const Hardware& hardware, const Config& asked)
      : config_(config),
        asked_(asked),
        plans_(plans),
        room_(room),
        hardware_(hardware),
        layers_(static_cast<int>(main_stage(plans.model).layers.size())),
        trials_(config, plans, hardware),
        base_(trial(plans.options, layout_options(config))) {}

  std::vector<std::string> lines() {
    // What remat_policy: auto chose, it chose among all of these.
    if (!is_chosen()) {
      if (room_.fits()) questions_.push_back([this] { return advice_on_policies(); });
      if (room_.fits()) questions_.push_back([this] { return advice_on_auto(); });
      for (const offload::LayerPlan& layers : plans_.step.layers)
        if (layers.stage == main_stage(plans_.model).name && layers.first == 0)
          ask_about_labels(*layers.partition);
      ask_about_homes();
    }
    if (plans_.options.optimizer)
      for (const Lever& lever : kLevers)
        if (lever.applies(asked_))
          questions_.push_back([this, &lever] { return advice_on_lever(lever); });
    std::vector<std::vector<Line>> answers(questions_.size());
    parallel_for(questions_.size(), [&](size_t i) { answers[i] = questions_[i](); });
    std::vector<Line> lines;
    for (std::vector<Line>& answer : answers) std::ranges::move(answer, std::back_inserter(lines));
    std::ranges::stable_sort(lines, {}, [](const Line& line) {
      return std::pair{line.rank, -line.gain};
    });
    std::vector<std::string> texts;
    for (Line& line : lines) texts.push_back(std::move(line.text));
    return texts;
  }

 private:
  Trial trial(const StepOptions& options, const offload::LayoutOptions& layout) const {
    StepTrial plans = trials_.plan(options, layout);
    const StepTimes times = plans.times(hardware_);
    return {std::move(plans), times};
  }

  StepOptions with_action(const std::string& label, Action action) const {
    StepOptions options = plans_.options;
    auto set = [&](offload::Policy& policy) {
      policy.name = "tried";
      policy.actions[label] = action;
    };
    set(options.policy.all.first);
    if (options.policy.all.others) set(*options.policy.all.others);
    return options;
  }

  // A trial of the step with another action of the label.
  Trial trial_with(const std::string& label, Action action) const {
    return trial(with_action(label, action), layout_options(config_));
  }

  void ask_about_labels(const offload::Partition& partition) {
    for (const std::string& label : partition.forward.labels()) {
      bool is_input = std::ranges::any_of(
          partition.forward.inputs_from(models::Source::input),
          [&](models::ValueId id) { return partition.forward[id].label == label; });
      const offload::Policy& policy = plans_.options.policy.all.first;
      Action now =
          policy.actions.contains(label) || !is_input ? policy.action(label) : Action::keep;
      if (now == Action::remat)
        questions_.push_back([this, label] { return advice_on_recomputed(label); });
      if (now == Action::offload && !is_input)
        questions_.push_back([this, label] { return advice_on_offloaded(label); });
    }
  }

  double milliseconds_a_layer(double seconds) const { return 1e3 * seconds / layers_; }

  bool is_negligible(double gain) const {
    return std::abs(gain) < kNegligibleGain * base_.times.step;
  }

  std::string percent_of_step(double seconds) const {
    return fmt::format("{:.1f} % of a step", 100 * std::abs(seconds) / base_.times.step);
  }

  const char* doubt(double gain) const {
    return gain < kReliableGain * base_.times.step ? "; less than 4 %: measure it" : "";
  }

  // A setting with which the step takes `after` seconds instead of `before`, as a command line has
  // it.
  Line setting(Rank rank, const std::string& settings, double before, double after,
               const std::string& why) const {
    const double gain = before - after;
    return {.rank = rank,
            .gain = gain,
            .text = fmt::format("{} would save {}, to {:.4f} s: {}{}", settings,
                                percent_of_step(gain), after, why, doubt(gain))};
  }

  StepOptions options_of(Config config) const {
    config.prefetch_layers = 0;  // the trial chooses it
    return step_options(config, plans_.model, hardware_.target);
  }

  // `none` and the fastest named policy, of those that fit and are faster.
  std::vector<Line> advice_on_policies() const {
    struct Faster {
      Config config;
      StepOptions options;
      double seconds;
    };
    std::vector<Faster> faster;
    for (const offload::PolicyInfo& info : offload::policies()) try {
        if (info.name == offload::kCustom || info.name == config_.remat_policy) continue;
        Config config = with_policy(config_, info.name);
        StepOptions options = options_of(config);
        const double seconds = trial(options, layout_options(config_)).times.step;
        if (seconds < base_.times.step && !is_negligible(base_.times.step - seconds))
          faster.push_back({std::move(config), std::move(options), seconds});
      } catch (const ConfigError&) {
        continue;  // it does not suit the model, or what else is set
      }
    std::ranges::stable_sort(faster, {}, &Faster::seconds);
    std::vector<Line> lines;
    for (const Faster& one : faster) {
      const bool is_none = one.config.remat_policy == offload::kNone;
      if (!lines.empty() && !is_none) continue;
      if (!room_for(trials_.memory(one.options)).fits()) continue;
      lines.push_back(setting(Rank::policy, changed_settings(config_, one.config), base_.times.step,
                              one.seconds,
                              is_none ? "it fits, and nothing is computed again" : "it fits"));
    }
    return lines;
  }

  std::vector<Line> advice_on_auto() const try {
    if (config_.hardware.empty()) return {};
    const Config config = with_policy(config_, offload::kAuto);
    const std::optional<SimulatedPlan> choice = find_policy_quickly(config, hardware_.target);
    if (!choice) return {};
    const double before = whole_step_seconds(), after = choice->step_seconds;
    if (before < after || is_negligible(before - after)) return {};
    return {setting(Rank::policy, changed_settings(config_, config), before, after,
                    "it can choose " + summary(choice->config) + ", or what is faster")};
  } catch (const ConfigError&) {
    return {};  // the config has keys that `auto` cannot keep
  }

  bool is_chosen() const { return asked_.remat_policy == offload::kAuto; }

  // Of the config's own plan, which may be longer than what base_ simulates.
  double whole_step_seconds() const { return estimate(plans_.step, hardware_).step_seconds; }

  bool is_worth(const Lever& lever, double gain) const {
    const double least = lever.changes_results ? kGainWorthOtherResults : kNegligibleGain;
    return gain >= least * base_.times.step;
  }

  std::vector<Line> advice_on_lever(const Lever& lever) const try {
    Config config = asked_;
    lever.make(config);
    validate(config);
    if (is_chosen() && plans_.layout.any_on_host()) {
      const std::optional<SimulatedPlan> choice = find_policy_quickly(config, hardware_.target);
      if (!choice) return {};
      const double before = whole_step_seconds(), after = choice->step_seconds;
      if (!is_worth(lever, before - after)) return {};
      return {setting(Rank::gain, changed_settings(asked_, config), before, after, lever.why)};
    }
    config = config_;
    lever.make(config);
    const double after = trial(options_of(config), layout_options(config)).times.step,
                 gain = base_.times.step - after;
    if (!is_worth(lever, gain)) return {};
    const std::string settings = changed_settings(config_, config);
    if (room_.fits())
      if (const Room left = room_for(analyze(plan_training(config, hardware_.target)));
          !left.fits())
        return {no_room(fmt::format("{} would save {} and take", settings, percent_of_step(gain)),
                        left)};
    return {setting(Rank::gain, settings, base_.times.step, after, lever.why)};
  } catch (const ConfigError&) {
    return {};
  }

  // "pays, 3.2 % of a step; ..."
  std::string verdict(double gain) const {
    if (is_negligible(gain)) return "makes no difference";
    if (gain < 0) return "does not pay, " + percent_of_step(gain);
    return "pays, " + percent_of_step(gain) + doubt(gain);
  }

  // The seconds by which the trial's step takes longer than that of the config's plan, both with a
  // link that is `factor` times as fast.
  double longer(const Trial& trial, double factor) const {
    Hardware faster = hardware_;
    for (offload::RateCurve* link : {&faster.link_to_device, &faster.link_to_host}) {
      std::vector<offload::RateCurve::Point> points = link->points();
      for (auto& [size, rate] : points) rate *= factor;
      *link = offload::RateCurve(points);
    }
    return trial.plans.times(faster).step - base_.plans.times(faster).step;
  }

  // The link's rate in bytes/s at which the trial is as fast as the config's plan; 0 if no link up
  // to kFastestLink is enough.
  double rate_that_pays(const Trial& trial) const {
    double low = 1, high = 2;
    for (; longer(trial, high) > 0; high *= 2) {
      if (high >= kFastestLink) return 0;
      low = high;
    }
    while (high / low > kRatePrecision) {
      double middle = std::sqrt(low * high);
      (longer(trial, middle) > 0 ? low : high) = middle;
    }
    return high * hardware_.link_to_host.at(kLargeCopyBytes);
  }

  std::vector<Line> advice_on_recomputed(const std::string& label) const {
    Trial kept = trial_with(label, Action::keep);
    double saved = base_.times.recompute - kept.times.recompute;
    if (saved <= 0) return {};  // nothing reads the value, or computing it again costs nothing
    std::vector<Line> lines{advice_on_offloading(label, saved)};
    if (room_.fits()) lines.push_back(advice_on_keeping(label, kept));
    return lines;
  }

  Line advice_on_offloading(const std::string& label, double saved) const {
    Trial sent = trial_with(label, Action::offload);
    double exposed = sent.times.exposed - base_.times.exposed;
    double gain = base_.times.step - sent.times.step;
    std::string text =
        fmt::format("offloading {} would save {:.2f} ms a layer and expose {:.2f} ms: it ", label,
                    milliseconds_a_layer(saved), milliseconds_a_layer(std::max(0.0, exposed)));
    if (gain > 0 && room_.fits())
      if (const Room left = room_for(trials_.memory(with_action(label, Action::offload)));
          !left.fits())
        return no_room(text + "takes", left);
    if (gain > 0 || is_negligible(gain)) return {.gain = gain, .text = text + verdict(gain)};
    double rate = rate_that_pays(sent);
    return {.gain = gain,
            .text = text + "does not pay here; " +
                    (rate > 0 ? fmt::format("the link would have to reach {:.0f} GB/s", rate / 1e9)
                              : "no link would make it pay")};
  }

  Room room_for(const MemoryByKind& memory) const {
    return room(memory, hardware_, memory_limits(config_));
  }

  static Line no_room(const std::string& text, const Room& room) {
    return {.rank = Rank::no_room,
            .text = text + " " + bytes_text(missing_bytes(room)) + " more than there is"};
  }

  Line advice_on_keeping(const std::string& label, const Trial& kept) const {
    const MemoryByKind memory = trials_.memory(with_action(label, Action::keep));
    const int64_t bytes =
        memory[MemoryKind::device].peak_bytes - analyze(plans_)[MemoryKind::device].peak_bytes;
    const Room left = room_for(memory);
    const double gain = base_.times.step - kept.times.step;
    if (gain < 0 || is_negligible(gain))
      return {.gain = gain, .text = "keeping " + label + " would " + effect(gain, "")};
    const std::string text =
        fmt::format("keeping {} would {} for {} on the device", label, effect(gain, ""),
                    bytes > 0 ? bytes_text(bytes) + " more" : "nothing more");
    if (left.fits()) return {.gain = gain, .text = text + (bytes > 0 ? ", which is there" : "")};
    return no_room(text + ",", left);
  }

  // "save 3.2 % of a step", with the verb's ending.
  std::string effect(double gain, const char* ending) const {
    if (is_negligible(gain)) return fmt::format("make{} no difference", ending);
    return fmt::format("{}{} {}", gain > 0 ? "save" : "cost", ending, percent_of_step(gain));
  }

  std::vector<Line> advice_on_offloaded(const std::string& label) const {
    Trial again = trial_with(label, Action::remat);
    double loss = again.times.step - base_.times.step;
    double exposed = std::max(0.0, base_.times.exposed - again.times.exposed);
    return {{.gain = std::max(0.0, -loss),
             .text = fmt::format(
                 "offloading {} saves {:.2f} ms of recompute a layer and exposes {:.2f} "
                 "ms: it {}",
                 label, milliseconds_a_layer(again.times.recompute - base_.times.recompute),
                 milliseconds_a_layer(exposed), verdict(loss))}};
  }

  using Home = MemoryKind offload::Homes::*;

  void ask_about_homes() {
    if (!plans_.options.optimizer) return;
    for (auto [name, home] :
         {std::pair<const char*, Home>{"parameters", &offload::Homes::parameters},
          {"gradients", &offload::Homes::gradients},
          {"optimizer state", &offload::Homes::optimizer}})
      questions_.push_back([this, name, home] { return advice_on_home(name, home); });
  }

  std::vector<Line> advice_on_home(const char* name, Home home) const {
    offload::LayoutOptions options = layout_options(config_);
    MemoryKind& where = options.homes.*home;
    bool is_on_host = where != MemoryKind::device;
    where = is_on_host ? MemoryKind::device : MemoryKind::pinned_host;
    StepOptions changed = plans_.options;
    if (is_on_host && home == &offload::Homes::optimizer)
      changed.optimizer->lane = offload::Lane::compute;
    const double longer = trial(changed, options).times.step - base_.times.step;
    if (!is_on_host)
      return {{.rank = Rank::home,
               .text = fmt::format("{} in host memory would {}", name, effect(-longer, ""))}};
    const bool is_one = home == &offload::Homes::optimizer;
    return {{.gain = -longer,
             .text = fmt::format("{} in host memory {}", name, effect(longer, is_one ? "s" : ""))}};
  }

  const Config& config_;
  const Config& asked_;
  const TrainingPlans& plans_;
  const Room& room_;
  const Hardware& hardware_;
  int layers_;
  StepTrials trials_;
  Trial base_;                                                 // the config's own plan
  std::vector<std::function<std::vector<Line>()>> questions_;  // answered in parallel
};

}  // namespace

std::vector<std::string> advise(const Config& config, const TrainingPlans& plans, const Room& room,
                                const Hardware& hardware, const Config* asked) {
  return Adviser(config, plans, room, hardware, asked ? *asked : config).lines();
}

}  // namespace longshore::trainer
