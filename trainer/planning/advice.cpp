#include "trainer/planning/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainer/step/first_layers.h"

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

// A step of the first layers.
struct Trial {
  StepPlans plans;
  double seconds = 0, exposed = 0, recompute = 0;
};

struct Line {
  double gain = 0;  // seconds of a layer or of a step; what saves most comes first
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
        base_(trial(plans.options, layout_options(config))) {
    for (const models::Stage& stage : plans.model.stages)
      if (stage.is_scan()) layers_ = static_cast<int>(stage.layers.size());
    tried_layers_ = std::min(layers_, kFirstLayers);
  }

  std::vector<std::string> lines() {
    for (const offload::LayerPlan& layers : plans_.step.layers)
      if (layers.is_scan && layers.first == 0) advise_on_labels(*layers.partition);
    advise_on_homes();
    std::stable_sort(lines_.begin(), lines_.end(),
                     [](const Line& a, const Line& b) { return a.gain > b.gain; });
    std::vector<std::string> texts;
    for (Line& line : lines_) texts.push_back(std::move(line.text));
    return texts;
  }

 private:
  Trial trial(StepOptions options, const offload::LayoutOptions& layout_options) const {
    // What is tried may have transfers where the plan has none.
    if (config_.prefetch_layers < 0) options.transfers.layers_ahead = 1;
    Trial trial{.plans = plan_first_layers(plans_.model, layout_options, std::move(options),
                                           hardware_.target)};
    Estimate walked = estimate(trial.plans, hardware_);
    trial.seconds = walked.step_seconds;
    trial.exposed = walked.phases.exposed_transfer + walked.phases.exposed_host;
    trial.recompute = walked.phases.recompute;
    return trial;
  }

  Trial with_fate(const std::string& label, Fate fate) const {
    StepOptions options = plans_.options;
    auto set = [&](offload::Policy& policy) {
      policy.name = "tried";
      policy.fates[label] = fate;
    };
    set(options.policy);
    if (options.others) set(*options.others);
    return trial(std::move(options), layout_options(config_));
  }

  void advise_on_labels(const offload::Partition& partition) {
    for (const std::string& label : partition.forward.labels()) {
      bool is_input = std::ranges::any_of(
          partition.forward.inputs_from(models::Source::input),
          [&](models::ValueId id) { return partition.forward[id].label == label; });
      Fate now = plans_.options.policy.fates.contains(label) || !is_input
                     ? plans_.options.policy.fate(label)
                     : Fate::keep;
      if (now == Fate::remat) advise_on_recomputed(label);
      if (now == Fate::offload) advise_on_offloaded(label, is_input);
    }
  }

  double milliseconds_a_layer(double seconds) const { return 1e3 * seconds / tried_layers_; }

  bool is_nothing(double gain) const { return std::abs(gain) < kNothing * base_.seconds; }

  // "pays, 3.2 % of a step; ..."
  std::string verdict(double gain) const {
    if (is_nothing(gain)) return "makes no difference";
    const double percent = 100 * gain / base_.seconds;
    if (gain < 0) return fmt::format("does not pay, {:.1f} % of a step", -percent);
    return fmt::format("pays, {:.1f} % of a step{}", percent,
                       gain < kSureGain * base_.seconds ? "; less than 4 %: measure it" : "");
  }

  // The bytes a second that the link needs so that the trial is as fast as the plan; 0: none does.
  double rate_that_pays(const Trial& trial) const {
    auto scaled = [&](double factor) {
      Hardware faster = hardware_;
      for (offload::RateCurve* link : {&faster.link_to_device, &faster.link_to_host}) {
        std::vector<offload::RateCurve::Point> points = link->points();
        for (auto& [size, rate] : points) rate *= factor;
        *link = offload::RateCurve(points);
      }
      return estimate(trial.plans, faster).step_seconds;
    };
    double high = 64, low = 1;
    if (scaled(high) > base_.seconds) return 0;
    while (high / low > 1.05) {
      double middle = std::sqrt(low * high);
      (scaled(middle) > base_.seconds ? low : high) = middle;
    }
    return high * hardware_.link_to_host.at(1e9);
  }

  void advise_on_recomputed(const std::string& label) {
    Trial kept = with_fate(label, Fate::keep);
    double saved = base_.recompute - kept.recompute;
    if (saved <= 0) return;  // nothing reads it, or it costs nothing
    Trial sent = with_fate(label, Fate::offload);
    double exposed = sent.exposed - base_.exposed;
    double gain = base_.seconds - sent.seconds;
    std::string text =
        fmt::format("offloading {} would save {:.2f} ms a layer and expose {:.2f} ms: it ", label,
                    milliseconds_a_layer(saved), milliseconds_a_layer(std::max(0.0, exposed)));
    if (gain > 0 || is_nothing(gain)) {
      text += verdict(gain);
    } else {
      double rate = rate_that_pays(sent);
      text += "does not pay here; ";
      text += rate > 0 ? fmt::format("the link would have to reach {:.0f} GB/s", rate / 1e9)
                       : "no link would make it pay";
    }
    lines_.push_back({gain, text});

    if (!room_.fits()) return;
    int64_t bytes = kept_bytes(label) * layers_;
    double kept_gain = base_.seconds - kept.seconds;
    lines_.push_back(
        {room_.device_spare_bytes >= bytes ? kept_gain : -1,
         fmt::format("keeping {} would save {:.1f} % of a step for {} on the device, {}", label,
                     100 * kept_gain / base_.seconds, bytes_text(bytes),
                     room_.device_spare_bytes >= bytes
                         ? "which are there"
                         : bytes_text(bytes - room_.device_spare_bytes) + " more than there are")});
  }

  int64_t kept_bytes(const std::string& label) const {
    for (const offload::LayerPlan& layers : plans_.step.layers)
      if (layers.is_scan && layers.first == 0)
        for (const models::Value& value : layers.partition->forward.values)
          if (value.label == label) return value.type.bytes();
    return 0;
  }

  void advise_on_offloaded(const std::string& label, bool is_input) {
    if (is_input) return;
    Trial again = with_fate(label, Fate::remat);
    double loss = again.seconds - base_.seconds;
    double exposed = std::max(0.0, base_.exposed - again.exposed);
    lines_.push_back(
        {std::max(0.0, -loss),
         fmt::format("offloading {} saves {:.2f} ms of recompute a layer and exposes {:.2f} ms: "
                     "it {}",
                     label, milliseconds_a_layer(again.recompute - base_.recompute),
                     milliseconds_a_layer(exposed), verdict(loss))});
  }

  void advise_on_homes() {
    using Home = MemoryKind offload::Homes::*;
    for (auto [name, home] :
         {std::pair<const char*, Home>{"parameters", &offload::Homes::parameters},
          {"gradients", &offload::Homes::gradients},
          {"optimizer state", &offload::Homes::optimizer}}) {
      if (!plans_.options.optimizer) return;
      offload::LayoutOptions options = layout_options(config_);
      MemoryKind& where = options.homes.*home;
      bool is_on_host = where != MemoryKind::device;
      where = is_on_host ? MemoryKind::device : MemoryKind::pinned_host;
      StepOptions changed = plans_.options;
      if (is_on_host && home == &offload::Homes::optimizer)
        changed.optimizer->lane = offload::Lane::compute;
      Trial other = trial(changed, options);
      double change = (other.seconds - base_.seconds) / base_.seconds;
      std::string text =
          is_on_host
              ? fmt::format("{} in host memory cost {:.1f} % of a step", name, -100 * change)
              : fmt::format("{} in host memory would cost {:.1f} % of a step", name, 100 * change);
      lines_.push_back({is_on_host ? 0.0 : -2.0, text});
    }
  }

  const Config& config_;
  const TrainingPlans& plans_;
  const Room& room_;
  const Hardware& hardware_;
  Trial base_;
  int layers_ = 1, tried_layers_ = 1;
  std::vector<Line> lines_;
};

}  // namespace

std::vector<std::string> advise(const Config& config, const TrainingPlans& plans, const Room& room,
                                const Hardware& hardware) {
  return Adviser(config, plans, room, hardware).lines();
}

}  // namespace longshore::trainer
