#include "longshore/trainer/planner/advice/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "longshore/base/error.h"
#include "longshore/base/parallel.h"
#include "longshore/trainer/config/validate.h"
#include "longshore/trainer/planner/advice/advice_basis.h"
#include "longshore/trainer/planner/advice/advice_on_labels.h"
#include "longshore/trainer/planner/advice/memory_suggestions.h"
#include "longshore/trainer/planner/auto/auto_account.h"
#include "longshore/trainer/planner/auto/auto_policy.h"
#include "longshore/trainer/planner/auto/auto_search_space.h"
#include "longshore/trainer/planner/policy_plan.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::MemoryKind;

// A part of the step time: for less, a setting that changes what is trained on is not advised.
constexpr double kGainWorthOtherResults = 0.01;

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
    {[](const Config& c) { return c.moment_dtype != models::StateFormat::block8; },
     [](Config& c) { c.moment_dtype = models::StateFormat::block8; }, true,
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

class Adviser {
 public:
  Adviser(const AdviceBasis& basis, const Config& asked) : basis_(basis), asked_(asked) {}

  std::vector<AdviceQuestion> questions() const {
    std::vector<AdviceQuestion> questions;
    auto append = [&](std::vector<AdviceQuestion> more) {
      std::ranges::move(more, std::back_inserter(questions));
    };
    // What remat_policy: auto chose, it chose among all of these.
    if (!is_chosen()) {
      if (basis_.fits()) questions.push_back([this] { return advice_on_policies(); });
      if (basis_.fits()) questions.push_back([this] { return advice_on_auto(); });
      for (const offload::LayerPlan& layers : basis_.plans().step.layers)
        if (layers.stage == main_stage(basis_.plans().model).name && layers.first == 0)
          append(ask_about_labels(basis_, *layers.partition));
      append(ask_about_homes());
    }
    if (basis_.plans().options.optimizer)
      for (const Lever& lever : kLevers)
        if (lever.applies(asked_))
          questions.push_back([this, &lever] { return advice_on_lever(lever); });
    return questions;
  }

 private:
  bool is_chosen() const { return asked_.remat_policy == offload::kAuto; }

  StepOptions options_of(Config config) const {
    config.prefetch_layers = 0;  // the trial chooses it
    return step_options(basis_.spec().with(std::move(config)), basis_.plans().model);
  }

  // `none` and the fastest named policy, of those that fit and are faster.
  std::vector<AdviceLine> advice_on_policies() const {
    struct Faster {
      Config config;
      StepOptions options;
      double seconds;
    };
    std::vector<Faster> faster;
    for (const offload::PolicyInfo& info : offload::policies()) try {
        if (info.name == offload::kCustom || info.name == basis_.config().remat_policy) continue;
        Config config = with_policy(basis_.config(), info.name);
        StepOptions options = options_of(config);
        const double seconds = basis_.trial(options, layout_options(basis_.config())).times.step;
        if (seconds < basis_.own().times.step &&
            !basis_.is_negligible(basis_.own().times.step - seconds))
          faster.push_back({std::move(config), std::move(options), seconds});
      } catch (const ConfigError&) {
        continue;  // it does not suit the model, or what else is set
      }
    std::ranges::stable_sort(faster, {}, &Faster::seconds);
    std::vector<AdviceLine> lines;
    for (const Faster& one : faster) {
      const bool is_none = one.config.remat_policy == offload::kNone;
      if (!lines.empty() && !is_none) continue;
      if (!basis_.room_for(basis_.memory(one.options)).fits()) continue;
      lines.push_back(
          basis_.setting(AdviceRank::policy, changed_settings(basis_.config(), one.config),
                         basis_.own().times.step, one.seconds,
                         is_none ? "it fits, and nothing is computed again" : "it fits"));
    }
    return lines;
  }

  std::vector<AdviceLine> advice_on_auto() const try {
    if (basis_.config().hardware.empty()) return {};
    const Config config = with_policy(basis_.config(), offload::kAuto);
    const std::optional<SimulatedPlan> choice = find_policy_quickly(basis_.spec().with(config));
    if (!choice) return {};
    const double before = basis_.whole_step_seconds(), after = choice->step_seconds;
    if (before < after || basis_.is_negligible(before - after)) return {};
    return {basis_.setting(AdviceRank::policy, changed_settings(basis_.config(), config), before,
                           after,
                           "it can choose " + summary(choice->config) + ", or what is faster")};
  } catch (const ConfigError&) {
    return {};  // the config has keys that `auto` cannot keep
  }

  bool is_worth(const Lever& lever, double gain) const {
    if (lever.changes_results) return gain >= kGainWorthOtherResults * basis_.own().times.step;
    return gain > 0 && !basis_.is_negligible(gain);
  }

  std::vector<AdviceLine> advice_on_lever(const Lever& lever) const try {
    Config config = asked_;
    lever.make(config);
    validate(config);
    if (is_chosen() && basis_.plans().layout.any_on_host()) {
      const std::optional<SimulatedPlan> choice = find_policy_quickly(basis_.spec().with(config));
      if (!choice) return {};
      const double before = basis_.whole_step_seconds(), after = choice->step_seconds;
      if (!is_worth(lever, before - after)) return {};
      return {basis_.setting(AdviceRank::gain, changed_settings(asked_, config), before, after,
                             lever.why)};
    }
    config = basis_.config();
    lever.make(config);
    const double after = basis_.trial(options_of(config), layout_options(config)).times.step,
                 gain = basis_.own().times.step - after;
    if (!is_worth(lever, gain)) return {};
    const std::string settings = changed_settings(basis_.config(), config);
    if (basis_.fits())
      if (const Room left = basis_.room_for(analyze(plan_training(basis_.spec().with(config))));
          !left.fits())
        return {AdviceBasis::no_room(
            fmt::format("{} would save {} and take", settings, basis_.percent_of_step(gain)),
            left)};
    return {basis_.setting(AdviceRank::gain, settings, basis_.own().times.step, after, lever.why)};
  } catch (const ConfigError&) {
    return {};
  }

  using Home = MemoryKind offload::Homes::*;

  std::vector<AdviceQuestion> ask_about_homes() const {
    std::vector<AdviceQuestion> questions;
    if (!basis_.plans().options.optimizer) return questions;
    for (auto [name, home] :
         {std::pair<const char*, Home>{"parameters", &offload::Homes::parameters},
          {"gradients", &offload::Homes::gradients},
          {"optimizer state", &offload::Homes::optimizer}})
      questions.push_back([this, name, home] { return advice_on_home(name, home); });
    return questions;
  }

  std::vector<AdviceLine> advice_on_home(const char* name, Home home) const {
    offload::LayoutOptions options = layout_options(basis_.config());
    MemoryKind& where = options.homes.*home;
    bool is_on_host = where != MemoryKind::device;
    where = is_on_host ? MemoryKind::device : MemoryKind::pinned_host;
    StepOptions changed = basis_.plans().options;
    if (is_on_host && home == &offload::Homes::optimizer)
      changed.optimizer->lane = offload::Lane::compute;
    const double longer = basis_.trial(changed, options).times.step - basis_.own().times.step;
    if (!is_on_host)
      return {
          {.rank = AdviceRank::home,
           .text = fmt::format("{} in host memory would {}", name, basis_.effect(-longer, ""))}};
    const bool is_one = home == &offload::Homes::optimizer;
    return {{.gain = -longer,
             .text = fmt::format("{} in host memory {}; {}", name,
                                 basis_.effect(longer, is_one ? "s" : ""), kept_on_device(home))}};
  }

  // What the same would take with that kept on the device.
  std::string kept_on_device(Home home) const {
    const RunSpec kept = basis_.spec().changed([&](Config& config) {
      if (home == &offload::Homes::parameters) config.parameter_memory_host_offload = false;
      if (home == &offload::Homes::gradients) config.gradient_memory_host_offload = false;
      if (home != &offload::Homes::optimizer) return;
      config.optimizer_memory_host_offload = false;
      config.optimizer_compute = OptimizerCompute::device;
    });
    const MemoryByKind memory = analyze(plan_training(kept));
    return fmt::format("kept on the device, device {}: fits: {}",
                       bytes_text(memory[MemoryKind::device].peak_bytes),
                       fits_text(basis_.room_for(memory)));
  }

  const AdviceBasis& basis_;
  const Config& asked_;
};

}  // namespace

std::vector<std::string> advise(const RunSpec& spec, const TrainingPlans& plans, const Room& room,
                                const Config* asked) {
  const AdviceBasis basis(spec, plans, room);
  const Adviser adviser(basis, asked ? *asked : spec.config());
  const std::vector<AdviceQuestion> questions = adviser.questions();
  std::vector<std::vector<AdviceLine>> answers(questions.size());
  parallel_for(questions.size(), [&](size_t i) { answers[i] = questions[i](); });
  std::vector<AdviceLine> lines;
  for (std::vector<AdviceLine>& answer : answers)
    std::ranges::move(answer, std::back_inserter(lines));
  std::ranges::stable_sort(lines, {}, [](const AdviceLine& line) {
    return std::pair{line.rank, -line.gain};
  });
  std::vector<std::string> texts;
  for (AdviceLine& line : lines) texts.push_back(std::move(line.text));
  return texts;
}

}  // namespace longshore::trainer
