#include "trainer/planning/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/parallel.h"
#include "trainer/planning/step_trial.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::Fate;
using offload::Hardware;
using offload::MemoryKind;

// A part of the step time: smaller gains have turned out to be losses on real machines.
constexpr double kReliableGain = 0.04;
// A part of the step time: smaller gains are printed as 0.0 %.
constexpr double kNegligibleGain = 0.0005;

// The fastest link that rate_that_pays() tries, as a multiple of the machine's. No link today is
// that fast.
constexpr double kFastestLink = 64;
// rate_that_pays() finds the rate to within this factor, which is closer than the profiles' rates
// are to those of real machines.
constexpr double kRatePrecision = 1.05;
// The bytes of a copy that is so large that a link reaches its full rate.
constexpr double kLargeCopyBytes = 1e9;

// "0.4 %", and never "-0.0 %".
std::string percent(double part) {
  return fmt::format("{:.1f} %", std::round(1000 * part) / 10 + 0.0);
}

// A change of the plan, or none, with its times on the machine.
struct Trial {
  StepTrial plans;
  StepTimes times;
};

// Lines are printed in the order of their ranks.
enum class Rank {
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
          const Hardware& hardware)
      : config_(config),
        plans_(plans),
        room_(room),
        hardware_(hardware),
        layers_(static_cast<int>(scan_stage(plans.model).layers.size())),
        trials_(config, plans, hardware),
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
  Trial trial(const StepOptions& options, const offload::LayoutOptions& layout) const {
    StepTrial plans = trials_.plan(options, layout);
    const StepTimes times = plans.times(hardware_);
    return {std::move(plans), times};
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

  // A trial of the step with another fate of the label.
  Trial trial_with(const std::string& label, Fate fate) const {
    return trial(with_fate(label, fate), layout_options(config_));
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

  bool is_negligible(double gain) const {
    return std::abs(gain) < kNegligibleGain * base_.times.step;
  }

  // "pays, 3.2 % of a step; ..."
  std::string verdict(double gain) const {
    if (is_negligible(gain)) return "makes no difference";
    const double percent = 100 * gain / base_.times.step;
    if (gain < 0) return fmt::format("does not pay, {:.1f} % of a step", -percent);
    return fmt::format(
        "pays, {:.1f} % of a step{}", percent,
        gain < kReliableGain * base_.times.step ? "; less than 4 %: measure it" : "");
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
    Trial kept = trial_with(label, Fate::keep);
    double saved = base_.times.recompute - kept.times.recompute;
    if (saved <= 0) return {};  // nothing reads the value, or computing it again costs nothing
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
    if (gain > 0 && room_.fits())
      if (const Room left = room_for(trials_.memory(with_fate(label, Fate::offload))); !left.fits())
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
    const MemoryByKind memory = trials_.memory(with_fate(label, Fate::keep));
    const int64_t bytes =
        memory[MemoryKind::device].peak_bytes - analyze(plans_)[MemoryKind::device].peak_bytes;
    const Room left = room_for(memory);
    const double gain = base_.times.step - kept.times.step;
    std::string text = fmt::format("keeping {} would save {:.1f} % of a step for {} on the device",
                                   label, 100 * gain / base_.times.step,
                                   bytes > 0 ? bytes_text(bytes) + " more" : "nothing more");
    if (left.fits()) return {.gain = gain, .text = text + (bytes > 0 ? ", which is there" : "")};
    return no_room(text + ",", left);
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
    if (!is_on_host)
      return {{.rank = Rank::home,
               .text = fmt::format("{} in host memory would {} {} of a step", name,
                                   change < 0 ? "save" : "cost", percent(std::abs(change)))}};
    return {{.gain = -change * base_.times.step,
             .text = fmt::format("{} in host memory {} {} of a step", name,
                                 change > 0 ? "save" : "cost", percent(std::abs(change)))}};
  }

  const Config& config_;
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
                                const Hardware& hardware) {
  return Adviser(config, plans, room, hardware).lines();
}

}  // namespace longshore::trainer
