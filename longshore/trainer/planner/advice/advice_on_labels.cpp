#include "longshore/trainer/planner/advice/advice_on_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace longshore::trainer {
namespace {

using offload::Action;
using offload::bytes_text;
using offload::Hardware;
using offload::MemoryKind;

// The fastest link that rate_that_pays() tries, as a multiple of the machine's. No link today is
// that fast.
constexpr double kFastestLink = 64;
// rate_that_pays() finds the rate to within this factor, which is closer than the profiles' rates
// are to those of real machines.
constexpr double kRatePrecision = 1.05;
// The bytes of a copy that is so large that a link reaches its full rate.
constexpr double kLargeCopyBytes = 1e9;

class LabelAdvice {
 public:
  explicit LabelAdvice(const AdviceBasis& basis) : basis_(basis) {}

  std::vector<AdviceLine> on_recomputed(const std::string& label) const {
    Trial kept = trial_with(label, Action::keep);
    double saved = basis_.own().times.recompute - kept.times.recompute;
    if (saved <= 0) return {};  // nothing reads the value, or computing it again costs nothing
    std::vector<AdviceLine> lines{on_offloading(label, saved)};
    if (basis_.fits()) lines.push_back(on_keeping(label, kept));
    return lines;
  }

  std::vector<AdviceLine> on_offloaded(const std::string& label) const {
    Trial again = trial_with(label, Action::remat);
    double loss = again.times.step - basis_.own().times.step;
    double exposed = std::max(0.0, basis_.own().times.exposed - again.times.exposed);
    return {{.gain = std::max(0.0, -loss),
             .text = fmt::format(
                 "offloading {} saves {:.2f} ms of recompute a layer and exposes {:.2f} "
                 "ms: it {}",
                 label, milliseconds_a_layer(again.times.recompute - basis_.own().times.recompute),
                 milliseconds_a_layer(exposed), verdict(loss))}};
  }

 private:
  StepOptions with_action(const std::string& label, Action action) const {
    StepOptions options = basis_.plans().options;
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
    return basis_.trial(with_action(label, action), layout_options(basis_.config()));
  }

  double milliseconds_a_layer(double seconds) const {
    return 1e3 * seconds / static_cast<double>(main_stage(basis_.plans().model).layers.size());
  }

  // "pays, 3.2 % of a step; ..."
  std::string verdict(double gain) const {
    if (basis_.is_negligible(gain)) return "makes no difference";
    if (gain < 0) return "does not pay, " + basis_.percent_of_step(gain);
    return "pays, " + basis_.percent_of_step(gain) + basis_.doubt(gain);
  }

  // The seconds by which the trial's step takes longer than that of the config's plan, both with a
  // link that is `factor` times as fast.
  double longer(const Trial& trial, double factor) const {
    Hardware faster = basis_.hardware();
    for (offload::RateCurve* link : {&faster.link_to_device, &faster.link_to_host}) {
      std::vector<offload::RateCurve::Point> points = link->points();
      for (auto& [size, rate] : points) rate *= factor;
      *link = offload::RateCurve(points);
    }
    return trial.plans.times(faster).step - basis_.own().plans.times(faster).step;
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
    return high * basis_.hardware().link_to_host.at(kLargeCopyBytes);
  }

  AdviceLine on_offloading(const std::string& label, double saved) const {
    Trial sent = trial_with(label, Action::offload);
    double exposed = sent.times.exposed - basis_.own().times.exposed;
    double gain = basis_.own().times.step - sent.times.step;
    std::string text =
        fmt::format("offloading {} would save {:.2f} ms a layer and expose {:.2f} ms: it ", label,
                    milliseconds_a_layer(saved), milliseconds_a_layer(std::max(0.0, exposed)));
    if (gain > 0 && basis_.fits())
      if (const Room left = basis_.room_for(basis_.memory(with_action(label, Action::offload)));
          !left.fits())
        return AdviceBasis::no_room(text + "takes", left);
    if (gain > 0 || basis_.is_negligible(gain)) return {.gain = gain, .text = text + verdict(gain)};
    double rate = rate_that_pays(sent);
    return {.gain = gain,
            .text = text + "does not pay here; " +
                    (rate > 0 ? fmt::format("the link would have to reach {:.0f} GB/s", rate / 1e9)
                              : "no link would make it pay")};
  }

  AdviceLine on_keeping(const std::string& label, const Trial& kept) const {
    const MemoryByKind memory = basis_.memory(with_action(label, Action::keep));
    const int64_t bytes = memory[MemoryKind::device].peak_bytes -
                          analyze(basis_.plans())[MemoryKind::device].peak_bytes;
    const Room left = basis_.room_for(memory);
    const double gain = basis_.own().times.step - kept.times.step;
    if (gain < 0 || basis_.is_negligible(gain))
      return {.gain = gain, .text = "keeping " + label + " would " + basis_.effect(gain, "")};
    const std::string text =
        fmt::format("keeping {} would {} for {} on the device", label, basis_.effect(gain, ""),
                    bytes > 0 ? bytes_text(bytes) + " more" : "nothing more");
    if (left.fits()) return {.gain = gain, .text = text + (bytes > 0 ? ", which is there" : "")};
    return AdviceBasis::no_room(text + ",", left);
  }

  const AdviceBasis& basis_;
};

}  // namespace

std::vector<AdviceQuestion> ask_about_labels(const AdviceBasis& basis,
                                             const offload::Partition& partition) {
  std::vector<AdviceQuestion> questions;
  const LabelAdvice advice(basis);
  for (const std::string& label : partition.forward.labels()) {
    bool is_input = std::ranges::any_of(
        partition.forward.inputs_from(models::Source::input),
        [&](models::ValueId id) { return partition.forward[id].label == label; });
    const offload::Policy& policy = basis.plans().options.policy.all.first;
    Action now = policy.actions.contains(label) || !is_input ? policy.action(label) : Action::keep;
    if (now == Action::remat)
      questions.push_back([advice, label] { return advice.on_recomputed(label); });
    if (now == Action::offload && !is_input)
      questions.push_back([advice, label] { return advice.on_offloaded(label); });
  }
  return questions;
}

}  // namespace longshore::trainer
