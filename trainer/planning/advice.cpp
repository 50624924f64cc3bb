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

// Smaller gains have turned out to be losses on real machines.
constexpr double kSureGain = 0.04;
// What the figures, in tenths of a percent, would show as 0.
constexpr double kNothing = 0.0005;

// Of a step, in seconds.
struct Times {
  double step = 0, exposed = 0, recompute = 0;
};

Times times_of(const StepPlans& step, const Hardware& hardware) {
  const Estimate walked = estimate(step, hardware);
  return {walked.step_seconds, walked.phases.exposed_transfer + walked.phases.exposed_host,
          walked.phases.recompute};
}

// So many, and what a step of them counts.
struct Part {
  int64_t count;
  double weight;
};

// The first and the last layers and micro-batches differ by what lies before and behind them; of
// the others each takes what another does. So what a step of very many takes is on the line through
// what two shorter ones take.
std::vector<Part> parts(int64_t count, int64_t few, int64_t more) {
  if (count <= few + more) return {{count, 1}};
  const double beyond = static_cast<double>(count - few) / static_cast<double>(more - few);
  return {{few, 1 - beyond}, {more, beyond}};
}

struct Trial {
  std::vector<std::pair<double, StepPlans>> steps;  // each with its weight
  Times times;
};

struct Line {
  double gain = 0;  // seconds of a layer or of a step; what saves most comes first
  std::string text;
};

int layers_of(const models::Model& model) {
  return static_cast<int>(
      std::ranges::find_if(model.stages, &models::Stage::is_scan)->layers.size());
}

class Adviser {
 public:
  Adviser(const Config& config, const TrainingPlans& plans, const Room& room,
          const Hardware& hardware)
      : config_(config),
        plans_(plans),
        room_(room),
        hardware_(hardware),
        layers_(layers_of(plans.model)),
        base_(trial(plans.options, layout_options(config))) {}

  std::vector<std::string> lines() {
    for (const offload::LayerPlan& layers : plans_.step.layers)
      if (layers.is_scan && layers.first == 0) ask_about_labels(*layers.partition);
    ask_about_homes();
    std::vector<std::vector<Line>> answers(questions_.size());
    parallel_for(questions_.size(), [&](size_t i) { answers[i] = questions_[i](); });
    std::vector<Line> lines;
    for (std::vector<Line>& answer : answers) std::ranges::move(answer, std::back_inserter(lines));
    std::ranges::stable_sort(lines, std::ranges::greater(), &Line::gain);
    std::vector<std::string> texts;
    for (Line& line : lines) texts.push_back(std::move(line.text));
    return texts;
  }

 private:
  // As a config would be planned that differs in this alone.
  Trial trial(StepOptions options, const offload::LayoutOptions& layout) const {
    options.transfers.layers_ahead = layers_ahead(options, layout);
    Trial trial;
    for (const Part& layers : parts(layers_, 12, 24)) {
      const models::Model model =
          models::first_layers(plans_.model, static_cast<int>(layers.count));
      StepOptions some = options;
      if (options.offload_layers)
        some.offload_layers = static_cast<int>(*options.offload_layers * layers.count / layers_);
      for (const Part& micro_batches : parts(options.micro_batches, 2, 3)) {
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

  // How much longer the trial takes than the plan, both on links so much faster.
  double longer(const Trial& trial, double factor) const {
    Hardware faster = hardware_;
    for (offload::RateCurve* link : {&faster.link_to_device, &faster.link_to_host}) {
      std::vector<offload::RateCurve::Point> points = link->points();
      for (auto& [size, rate] : points) rate *= factor;
      *link = offload::RateCurve(points);
    }
    return walk(trial, faster).step - walk(base_, faster).step;
  }

  // The bytes a second that the link needs so that the trial is as fast as the plan; 0: none does.
  double rate_that_pays(const Trial& trial) const {
    constexpr double kFastest = 64;
    double low = 1, high = 2;
    for (; longer(trial, high) > 0; high *= 2) {
      if (high >= kFastest) return 0;
      low = high;
    }
    while (high / low > 1.05) {
      double middle = std::sqrt(low * high);
      (longer(trial, middle) > 0 ? low : high) = middle;
    }
    return high * hardware_.link_to_host.at(1e9);
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
    if (gain > 0 || is_nothing(gain)) return {gain, text + verdict(gain)};
    double rate = rate_that_pays(sent);
    return {gain,
            text + "does not pay here; " +
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
    if (left.fits()) return {gain, text + "which is there"};
    return {-1, text + bytes_text(-std::min(left.device_spare_bytes, left.host_spare_bytes)) +
                    " more than there is"};
  }

  std::vector<Line> advice_on_offloaded(const std::string& label) const {
    Trial again = trial_with(label, Fate::remat);
    double loss = again.times.step - base_.times.step;
    double exposed = std::max(0.0, base_.times.exposed - again.times.exposed);
    return {{std::max(0.0, -loss),
             fmt::format("offloading {} saves {:.2f} ms of recompute a layer and exposes {:.2f} "
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
    return {{is_on_host ? 0.0 : -2.0, text}};
  }

  const Config& config_;
  const TrainingPlans& plans_;
  const Room& room_;
  const Hardware& hardware_;
  int layers_;
  Trial base_;
  std::vector<std::function<std::vector<Line>()>> questions_;  // one does not wait for another
};

}  // namespace

std::vector<std::string> advise(const Config& config, const TrainingPlans& plans, const Room& room,
                                const Hardware& hardware) {
  return Adviser(config, plans, room, hardware).lines();
}

}  // namespace longshore::trainer
