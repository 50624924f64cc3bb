#include "trainer/planning/auto_formula.h"

#include <algorithm>
#include <cmath>

namespace longshore::trainer {
namespace {

using offload::Assignment;
using offload::Event;
using offload::Fate;
using offload::Lane;
using offload::MemoryKind;
using offload::Phase;
using offload::Plan;

const models::Stage& scan_of(const models::Model& model) {
  return *std::find_if(model.stages.begin(), model.stages.end(),
                       [](const models::Stage& stage) { return stage.is_scan(); });
}

// An update counts for the pass that it lies in.
void add_loads(const Estimate& estimate, Base& base) {
  double turn = estimate.step_seconds;
  for (const Event& event : estimate.events)
    if (event.lane == Lane::compute && event.place.phase == Phase::backward)
      turn = std::min(turn, event.span.begin);
  for (const Event& event : estimate.events) {
    bool is_forward = event.place.phase == Phase::forward ||
                      (event.place.phase == Phase::optimizer && event.span.begin < turn);
    Load& load = is_forward ? base.forward : base.backward;
    double& busy = event.lane == Lane::compute          ? load.compute
                   : event.lane == Lane::device_to_host ? load.to_host
                   : event.lane == Lane::host_to_device ? load.to_device
                   : event.lane == Lane::network        ? load.network
                                                        : load.on_host;
    busy += event.span.end - event.span.begin;
  }
}

// By the number of layers that hold values, the most that is alive.
void add_moments(const StepPlans& step, const std::string& stage, int layers, Base& base) {
  std::vector<double> most(layers + 1);
  for (const Plan& plan : step.plans) {
    std::vector<int64_t> alive = alive_bytes(plan, MemoryKind::device);
    int holding = 0;
    for (size_t i = 0; i < alive.size(); ++i) {
      const offload::Instruction& instruction = plan.instructions[i];
      const offload::Place& place = instruction.place;
      if (instruction.lane == Lane::compute && place.stage == stage) {
        if (place.phase == Phase::forward) holding = place.layer + 1;
        if (place.phase == Phase::backward) holding = place.layer + 1;
      }
      most[holding] = std::max(most[holding], static_cast<double>(alive[i]));
    }
  }
  // Moments that cannot matter: a later one takes as much when more is held.
  for (int held = layers; held >= 0; --held)
    if (base.moments.empty() || most[held] > base.moments.back().device_bytes)
      base.moments.push_back({held, most[held]});
}

}  // namespace

LayerChoices layer_choices(const models::Model& model, const std::map<std::string, Fate>& fixed,
                           int64_t micro_batches, const offload::Hardware& hardware) {
  const models::Stage& stage = scan_of(model);
  LayerChoices choices{
      .assignments = offload::assignments(stage, fixed, hardware),
      .full = assign(stage, offload::make_policy("full", {}, stage.programs[0]), hardware),
      .layers = static_cast<int>(stage.layers.size()),
      .micro_batches = micro_batches};
  choices.for_any = choices.assignments.size();
  for (size_t i = 0; i < choices.for_any; ++i)
    if (const offload::Policy& policy = choices.assignments[i].policy; policy.offloads())
      choices.assignments.push_back(assign(stage, policy.kept_on_device(), hardware));
  return choices;
}

Base make_base(const Config& config, const LayerChoices& choices, const PolicyPlan& full) {
  Base base{.config = config,
            .choices = &choices,
            .step_seconds = full.estimate->step_seconds,
            .device_room = static_cast<double>(of(full.memory, MemoryKind::device).peak_bytes +
                                               full.room.device_spare_bytes),
            .host_room = static_cast<double>(full.room.host_spare_bytes)};
  add_loads(*full.estimate, base);
  add_moments(full.plans.step, scan_of(full.plans.model).name, choices.layers, base);
  return base;
}

Formula::Formula(const Base& base, const offload::Hardware& hardware, double derate, double margin)
    : base_(base),
      choices_(*base.choices),
      link_(derate * hardware.link_to_host.at(1e8)),
      fetch_seconds_(hardware.fetch_seconds(1)),
      device_room_(base.device_room - margin),
      is_one_processor_(hardware.takes_turns()) {}

double Formula::missing(const Assignment& first, const Assignment& others, int layers) const {
  double more = first.kept_bytes - choices_.full.kept_bytes,
         more_of_others = others.kept_bytes - choices_.full.kept_bytes;
  double sent =
      layers * first.offloaded_bytes + (choices_.layers - layers) * others.offloaded_bytes;
  double room = device_room_ - (is_one_processor_ ? sent : 0), over = 0;
  for (const Base::Moment& moment : base_.moments) {
    int held = std::min(layers, moment.layers);
    double bytes = moment.device_bytes + held * more + (moment.layers - held) * more_of_others;
    over = std::max(over, bytes - room);
  }
  return over + std::max(0.0, sent - base_.host_room);
}

double Formula::seconds(const Assignment& first, const Assignment& others, int layers) const {
  auto sum = [&](double of_first, double of_others) {
    return static_cast<double>(choices_.micro_batches) *
           (layers * of_first + (choices_.layers - layers) * of_others);
  };
  auto length = [&](const Load& load) {
    const double own = is_one_processor_
                           ? load.compute + load.to_host + load.to_device + load.on_host
                           : std::max({load.compute, load.to_host, load.to_device, load.on_host});
    return std::max(own, load.network);
  };
  double copies = sum(first.offloaded_bytes, others.offloaded_bytes) / link_;
  Load forward = base_.forward, backward = base_.backward;
  // What is kept is out of the caches when it is written, and when it is read.
  double fetching = fetch_seconds_ * sum(first.kept_bytes - choices_.full.kept_bytes,
                                         others.kept_bytes - choices_.full.kept_bytes);
  forward.compute += fetching;
  backward.compute += fetching;
  forward.to_host += copies;
  backward.to_device += copies;
  backward.compute += sum(first.backward_seconds - choices_.full.backward_seconds,
                          others.backward_seconds - choices_.full.backward_seconds);
  return base_.step_seconds + length(forward) + length(backward) - length(base_.forward) -
         length(base_.backward);
}

std::optional<Split> Formula::best(size_t first, size_t others, int64_t layers_given) const {
  const Assignment &a = choices_.assignments[first], &b = choices_.assignments[others];
  Split best{.base = &base_, .first = first, .others = others, .seconds = INFINITY};
  auto consider = [&](int layers) {
    if (layers < 1 || layers > choices_.layers || missing(a, b, layers) > 0) return;
    double one = seconds(a, b, layers);
    if (one >= best.seconds) return;
    best.seconds = one;
    best.layers = layers;
  };
  if (layers_given >= 0) {
    consider(static_cast<int>(layers_given));
    return best.layers > 0 ? std::optional(best) : std::nullopt;
  }
  // What fits is a range that ends where all layers are alike, or where one side's bytes do not
  // fit.
  consider(1);
  consider(choices_.layers);
  if (first != others) {
    auto fits = [&](int layers) { return missing(a, b, layers) == 0; };
    int low = 1, high = choices_.layers;
    bool thrifty_first = !fits(low);  // then more layers must be `first`
    if (fits(low) != fits(high)) {
      while (high - low > 1) {
        int middle = (low + high) / 2;
        (fits(middle) == fits(low) ? low : high) = middle;
      }
      consider(thrifty_first ? high : low);
    }
    // Where the link becomes the limit.
    double each = (a.offloaded_bytes - b.offloaded_bytes) / link_;
    double all = choices_.layers * b.offloaded_bytes / link_;
    double batches = static_cast<double>(choices_.micro_batches);
    if (each != 0)
      for (double idle : {base_.forward.compute - base_.forward.to_host,
                          base_.backward.compute - base_.backward.to_device}) {
        int at = static_cast<int>(std::clamp((idle / batches - all) / each, -1.0, 1e6));
        consider(at);
        consider(at + 1);
      }
  }
  return best.layers > 0 ? std::optional(best) : std::nullopt;
}

}  // namespace longshore::trainer
