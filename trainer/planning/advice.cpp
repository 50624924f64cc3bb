#include "trainer/planning/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/parallel.h"
#include "trainer/step/lookahead.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::Fate;
using offload::Hardware;
using offload::MemoryKind;

// Part of a step: smaller gains have turned out to be losses on real machines.
constexpr double kSureGain = 0.04;
// Part of a step: what the figures, in tenths of a percent, would show as 0.
constexpr double kNothing = 0.0005;

// Layers of the two short models that stand for a long one. Less than a dozen are mostly beginning
// and end: with five, some advice had another sign than that of the whole model.
constexpr int64_t kFewLayers = 12, kMoreLayers = 24;
// Micro-batches of the two short steps that stand for a long one: of two, one begins the gradients
// and one ends the step; a third is like all others.
constexpr int64_t kFewMicroBatches = 2, kMoreMicroBatches = 3;

// Times the machine's link: the fastest that is asked about. No link of today's is that fast.
constexpr double kFastestLink = 64;
// The rate of a link that pays is known to 5 %, which is nearer than the profiles' rates are.
constexpr double kRatePrecision = 1.05;
// Bytes of a copy so large that a link reaches its full rate.
constexpr double kLargeCopyBytes = 1e9;

// Seconds of a step.
struct Times {
  double step = 0, exposed = 0, recompute = 0;
};

Times times_of(const StepPlans& step, const Hardware& hardware) {
  const Estimate walked = estimate(step, hardware);
  return {walked.step_seconds, walked.phases.exposed_transfer + walked.phases.exposed_host,
          walked.phases.recompute};
}

// A step of `count` layers or micro-batches, and the factor by which its time enters a sum.
struct WeightedCount {
  int64_t count;
  double weight;
};

// Which shorter steps to walk to know the time of one with `count` layers or micro-batches. Only
// the first and the last few of these take times of their own, all between them take the same. So
// the time of a long step is linear in `count`, on the line through the times of `few` and of
// `more`. A step that is no longer than these two together is walked itself.
std::vector<WeightedCount> steps_to_walk(int64_t count, int64_t few, int64_t more) {
  if (count <= few + more) return {{count, 1}};
  const double beyond = static_cast<double>(count - few) / static_cast<double>(more - few);
  return {{few, 1 - beyond}, {more, beyond}};
}

// A change, or none, as it was tried.
struct Trial {
  std::vector<std::pair<double, StepPlans>> steps;  // each with its weight in `times`
  Times times;                                      // of the whole model's step
};

// Lines are printed by rank.
enum class Rank {
  gain,     // what a change would gain or lose, or what one that is made gains
  no_room,  // changes that do not fit
  home,     // what other homes would cost
};

struct Line {
  Rank rank = Rank::gain;
  double gain = 0;  // seconds of a step; of one rank what gains most comes first
  std::string text;
};

class Adviser {
 public:
  Adviser(const Config& config, const TrainingPlans& plans, const Room& room,
          const Hardware& hardware)
      : config_(config),
        plans_(plans),
        room_(room),
        hardware_(hardware),
        layers_(static_cast<int>(scan_stage(plans.model).layers.size())),
        base_(trial(plans.options, layout_options(config))) {}

  std::vector<std::string> lines() {
    for (const offload::LayerPlan& layers : plans_.step.layers)
      if (layers.is_scan && layers.first == 0) ask_about_labels(*layers.partition);
    ask_about_homes();
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
  // As a config would be planned that differs only in these options.
  Trial trial(StepOptions options, const offload::LayoutOptions& layout) const {
    options.transfers.layers_ahead = layers_ahead(options, layout);
    Trial trial;
    for (const WeightedCount& layers : steps_to_walk(layers_, kFewLayers, kMoreLayers)) {
      const models::Model model =
          models::first_layers(plans_.model, static_cast<int>(layers.count));
      StepOptions some = options;
      if (options.offload_layers)
        some.offload_layers = static_cast<int>(*options.offload_layers * layers.count / layers_);
      for (const WeightedCount& micro_batches :
           steps_to_walk(options.micro_batches, kFewMicroBatches, kMoreMicroBatches)) {
        some.micro_batches = micro_batches.count;
        trial.steps.emplace_back(
            layers.weight * micro_batches.weight,
            plan_step(model, offload::lay_out(model, layout), some, hardware_.target));
      }
    }
    trial.times = walk(trial, hardware_);
    return trial;
  }

  double layers_ahead(const StepOptions& options, const offload::LayoutOptions& layout) const {
    if (config_.prefetch_layers >= 0) return config_.prefetch_layers;
    return choose_layers_ahead(plans_.model, layout, options, hardware_.target, hardware_);
  }

  static Times walk(const Trial& trial, const Hardware& hardware) {
    Times sum;
    for (const auto& [weight, step] : trial.steps) {
      const Times times = times_of(step, hardware);
      sum.step += weight * times.step;
      sum.exposed += weight * times.exposed;
      sum.recompute += weight * times.recompute;
    }
    return sum;
  }

  StepOptions with_fate(const std::string& label, Fate fate) const {
    StepOptions options = plans_.options;
    auto set = [&](offload::Policy& policy) {
      policy.name = "tried";
      policy.fates[label] = fate;
    };
    set(options.policy);
    if (options.others) set(*options.others);
    return options;
  }

  Trial trial_with(const std::string& label, Fate fate) const {
    return trial(with_fate(label, fate), layout_options(config_));
  }

  MemoryByKind memory_with(const std::string& label, Fate fate) const {
    TrainingPlans changed{.model = plans_.model,
                          .layout = plans_.layout,
                          .options = with_fate(label, fate),
                          .step = {},
                          .evaluate = plans_.evaluate,
                          .sample = plans_.sample,
                          .has_snapshot = plans_.has_snapshot};
    changed.options.transfers.layers_ahead = layers_ahead(changed.options, layout_options(config_));
    changed.step = plan_step(changed.model, changed.layout, changed.options, hardware_.target);
    return analyze(changed);
  }

  void ask_about_labels(const offload::Partition& partition) {
    for (const std::string& label : partition.forward.labels()) {
      bool is_input = std::ranges::any_of(
          partition.forward.inputs_from(models::Source::input),
          [&](models::ValueId id) { return partition.forward[id].label == label; });
      Fate now = plans_.options.policy.fates.contains(label) || !is_input
                     ? plans_.options.policy.fate(label)
                     : Fate::keep;
      if (now == Fate::remat)
        questions_.push_back([this, label] { return advice_on_recomputed(label); });
      if (now == Fate::offload && !is_input)
        questions_.push_back([this, label] { return advice_on_offloaded(label); });
    }
  }

  double milliseconds_a_layer(double seconds) const { return 1e3 * seconds / layers_; }

  bool is_nothing(double gain) const { return std::abs(gain) < kNothing * base_.times.step; }

  // "pays, 3.2 % of a step; ..."
  std::string verdict(double gain) const {
    if (is_nothing(gain)) return "makes no difference";
    const double percent = 100 * gain / base_.times.step;
    if (gain < 0) return fmt::format("does not pay, {:.1f} % of a step", -percent);
    return fmt::format("pays, {:.1f} % of a step{}", percent,
                       gain < kSureGain * base_.times.step ? "; less than 4 %: measure it" : "");
  }

  // Seconds by which the trial's step takes longer than the plan's, both with a link that is
  // `factor` times as fast.
  double longer(const Trial& trial, double factor) const {
    Hardware faster = hardware_;
    for (offload::RateCurve* link : {&faster.link_to_device, &faster.link_to_host}) {
      std::vector<offload::RateCurve::Point> points = link->points();
      for (auto& [size, rate] : points) rate *= factor;
      *link = offload::RateCurve(points);
    }
    return walk(trial, faster).step - walk(base_, faster).step;
  }

  // The bytes a second that the link needs so that the trial is as fast as the plan; 0 where no
  // link up to kFastestLink makes it so.
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
    Trial kept = trial_with(label, Fate::keep);
    double saved = base_.times.recompute - kept.times.recompute;
    if (saved <= 0) return {};  // nothing reads it, or it costs nothing
    std::vector<Line> lines{advice_on_offloading(label, saved)};
    if (room_.fits()) lines.push_back(advice_on_keeping(label, kept));
    return lines;
  }

  Line advice_on_offloading(const std::string& label, double saved) const {
    Trial sent = trial_with(label, Fate::offload);
    double exposed = sent.times.exposed - base_.times.exposed;
    double gain = base_.times.step - sent.times.step;
    std::string text =
        fmt::format("offloading {} would save {:.2f} ms a layer and expose {:.2f} ms: it ", label,
                    milliseconds_a_layer(saved), milliseconds_a_layer(std::max(0.0, exposed)));
    if (gain > 0 || is_nothing(gain)) return {.gain = gain, .text = text + verdict(gain)};
    double rate = rate_that_pays(sent);
    return {.gain = gain,
            .text = text + "does not pay here; " +
                    (rate > 0 ? fmt::format("the link would have to reach {:.0f} GB/s", rate / 1e9)
                              : "no link would make it pay")};
  }

  Line advice_on_keeping(const std::string& label, const Trial& kept) const {
    const MemoryByKind memory = memory_with(label, Fate::keep);
    const int64_t bytes = of(memory, MemoryKind::device).peak_bytes -
                          of(analyze(plans_), MemoryKind::device).peak_bytes;
    const Room left = room(memory, hardware_, memory_limits(config_));
    const double gain = base_.times.step - kept.times.step;
    std::string text = fmt::format(
        "keeping {} would save {:.1f} % of a step for {} on the device, ", label,
        100 * gain / base_.times.step, bytes > 0 ? bytes_text(bytes) + " more" : "nothing more");
    if (left.fits()) return {.gain = gain, .text = text + "which is there"};
    const int64_t missing = -std::min(left.device_spare_bytes, left.host_spare_bytes);
    return {.rank = Rank::no_room, .text = text + bytes_text(missing) + " more than there is"};
  }

  std::vector<Line> advice_on_offloaded(const std::string& label) const {
    Trial again = trial_with(label, Fate::remat);
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
    double change = trial(changed, options).times.step / base_.times.step - 1;
    std::string text =
        is_on_host
            ? fmt::format("{} in host memory cost {:.1f} % of a step", name, -100 * change)
            : fmt::format("{} in host memory would cost {:.1f} % of a step", name, 100 * change);
    return {{.rank = is_on_host ? Rank::gain : Rank::home, .text = text}};
  }

  const Config& config_;
  const TrainingPlans& plans_;
  const Room& room_;
  const Hardware& hardware_;
  int layers_;
  Trial base_;
  std::vector<std::function<std::vector<Line>()>> questions_;  // answered side by side
};

}  // namespace

std::vector<std::string> advise(const Config& config, const TrainingPlans& plans, const Room& room,
                                const Hardware& hardware) {
  return Adviser(config, plans, room, hardware).lines();
}

}  // namespace longshore::trainer
