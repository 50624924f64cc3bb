#include "longshore/trainer/planner/auto/auto_formula.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace longshore::trainer {
namespace {

using offload::Assignment;
using offload::Event;
using offload::Lane;
using offload::MemoryKind;
using offload::Phase;
using offload::Plan;

// The size of the copies for which the link's rate is taken. This is about the size of a value that
// is worth offloading: 4096 tokens with 12,000 numbers each in bf16.
constexpr double kUsualCopyBytes = 1e8;

double& seconds_of(LaneSeconds& busy, Lane lane) {
  switch (lane) {
    case Lane::compute:
      return busy.compute;
    case Lane::device_to_host:
      return busy.to_host;
    case Lane::host_to_device:
      return busy.to_device;
    case Lane::network:
      return busy.network;
    case Lane::host_compute:
      break;
  }
  return busy.on_host;
}

void set_lane_seconds(const Estimate& estimate, BasePlan& base) {
  // A deferred update is made in the forward pass of the first micro-batch.
  const std::vector<Event>& first = estimate.runs.front().events;
  double turn = estimate.runs.front().seconds;  // the time at which the backward pass begins
  for (const Event& event : first)
    if (event.lane == Lane::compute && event.scope.phase == Phase::backward)
      turn = std::min(turn, event.span.begin);
  for (const offload::SimulatedRuns& runs : estimate.runs)
    for (const Event& event : runs.events) {
      const bool is_forward = event.scope.phase == Phase::forward ||
                              (event.scope.phase == Phase::optimizer && &runs.events == &first &&
                               event.span.begin < turn);
      seconds_of(is_forward ? base.forward : base.backward, event.lane) +=
          static_cast<double>(runs.times) * (event.span.end - event.span.begin);
    }
}

// The most bytes that are live on the device, by the number of layers that hold values.
std::vector<double> most_live_bytes(const StepPlans& step, const std::string& scan, int layers) {
  std::vector<double> most(layers + 1);
  for (const Plan& plan : step.plans) {
    const std::vector<int64_t> live_bytes = live_bytes_by_instruction(plan, MemoryKind::device);
    int holding = 0;
    for (size_t i = 0; i < live_bytes.size(); ++i) {
      const offload::Instruction& instruction = plan.instructions[i];
      const offload::Scope& scope = instruction.scope;
      if (instruction.lane == Lane::compute && scope.stage == scan &&
          (scope.phase == Phase::forward || scope.phase == Phase::backward))
        holding = scope.layer + 1;
      most[holding] = std::max(most[holding], static_cast<double>(live_bytes[i]));
    }
  }
  return most;
}

// The moments that can be the fullest: at all others no more is live than at one with more layers
// that hold values.
std::vector<BasePlan::Moment> moments(const std::vector<double>& most) {
  std::vector<BasePlan::Moment> moments;
  for (int holding = static_cast<int>(most.size()) - 1; holding >= 0; --holding)
    if (moments.empty() || most[holding] > moments.back().device_bytes)
      moments.push_back({holding, most[holding]});
  return moments;
}

}  // namespace

BasePlan base_plan(const Config& config, std::shared_ptr<const LayerChoices> choices,
                   const PolicyPlan& full, const offload::Hardware& hardware) {
  const int layers = choices->layers;
  const int64_t device_bytes = full.memory[MemoryKind::device].peak_bytes;
  BasePlan base{.config = config,
                .choices = std::move(choices),
                .step_seconds = full.estimate->step_seconds,
                .shared_room_bytes = static_cast<double>(
                    device_bytes + room(full.memory, hardware).device_spare_bytes),
                .host_room_bytes = static_cast<double>(full.room.host_spare_bytes)};
  const std::optional<int64_t> limit = memory_limits(config).device_bytes;
  base.device_room_bytes = limit ? static_cast<double>(*limit) : base.shared_room_bytes;
  set_lane_seconds(*full.estimate, base);
  base.moments =
      moments(most_live_bytes(full.plans.step, main_stage(full.plans.model).name, layers));
  return base;
}

StepFormula::StepFormula(const BasePlan& base, const offload::Hardware& hardware,
                         const FormulaMargin& margin)
    : base_(base),
      choices_(*base.choices),
      link_bytes_per_second_(margin.link_factor * hardware.link_to_host.at(kUsualCopyBytes)),
      fetch_seconds_per_byte_(hardware.fetch_seconds(1)),
      device_room_bytes_(base.device_room_bytes - margin.device_bytes),
      shared_room_bytes_(base.shared_room_bytes - margin.device_bytes),
      is_one_processor_(hardware.takes_turns()),
      // Transfers that start at their use and are waited for hide behind nothing.
      hides_copies_(!is_one_processor_ && base.config.prefetch_layers != 0) {}

double StepFormula::offloaded_bytes(const Assignment& first, const Assignment& others,
                                    int layers) const {
  return layers * first.offloaded_bytes + (choices_.layers - layers) * others.offloaded_bytes;
}

template <class F>
bool StepFormula::each_missing(const Assignment& first, const Assignment& others, int layers,
                               const F& f) const {
  const double more = first.kept_bytes - choices_.full.kept_bytes,
               more_of_others = others.kept_bytes - choices_.full.kept_bytes;
  const double offloaded = offloaded_bytes(first, others, layers);
  const double room =
      std::min(device_room_bytes_, shared_room_bytes_ - (is_one_processor_ ? offloaded : 0));
  for (const BasePlan::Moment& moment : base_.moments) {
    const int held = std::min(layers, moment.holding_layers);
    const double bytes =
        moment.device_bytes + held * more + (moment.holding_layers - held) * more_of_others;
    if (!f(bytes - room)) return false;
  }
  return true;
}

bool StepFormula::fits_device(const Assignment& first, const Assignment& others, int layers) const {
  return each_missing(first, others, layers, [](double bytes) { return bytes <= 0; });
}

bool StepFormula::fits_host(const Assignment& first, const Assignment& others, int layers) const {
  return missing_host_bytes(first, others, layers) == 0;
}

double StepFormula::missing_device_bytes(const Assignment& first, const Assignment& others,
                                         int layers) const {
  double missing = 0;
  each_missing(first, others, layers, [&](double bytes) {
    missing = std::max(missing, bytes);
    return true;
  });
  return missing;
}

double StepFormula::missing_host_bytes(const Assignment& first, const Assignment& others,
                                       int layers) const {
  return std::max(0.0, offloaded_bytes(first, others, layers) - base_.host_room_bytes);
}

double StepFormula::missing_bytes(const Assignment& first, const Assignment& others,
                                  int layers) const {
  return missing_device_bytes(first, others, layers) + missing_host_bytes(first, others, layers);
}

double StepFormula::seconds_of_pass(const LaneSeconds& busy) const {
  const double own = hides_copies_
                         ? std::max({busy.compute, busy.to_host, busy.to_device, busy.on_host})
                         : busy.compute + busy.to_host + busy.to_device + busy.on_host;
  return std::max(own, busy.network);
}

double StepFormula::seconds(const Assignment& first, const Assignment& others, int layers) const {
  auto of_step = [&](double of_first, double of_others) {
    return static_cast<double>(choices_.micro_batches) *
           (layers * of_first + (choices_.layers - layers) * of_others);
  };
  const Assignment& full = choices_.full;
  const double copies =
      of_step(first.offloaded_bytes, others.offloaded_bytes) / link_bytes_per_second_;
  // Values that are kept are not in the cache when they are written, nor when they are read.
  const double fetching = fetch_seconds_per_byte_ * of_step(first.kept_bytes - full.kept_bytes,
                                                            others.kept_bytes - full.kept_bytes);
  LaneSeconds forward = base_.forward, backward = base_.backward;
  forward.compute += fetching;
  backward.compute += fetching;
  forward.to_host += copies;
  backward.to_device += copies;
  backward.compute += of_step(first.backward_seconds - full.backward_seconds,
                              others.backward_seconds - full.backward_seconds);
  return base_.step_seconds + seconds_of_pass(forward) + seconds_of_pass(backward) -
         seconds_of_pass(base_.forward) - seconds_of_pass(base_.backward);
}

std::optional<LayerSplit> StepFormula::best(size_t first, size_t others,
                                            std::optional<int> first_layers) const {
  const Assignment &a = choices_.assignments[first], &b = choices_.assignments[others];
  LayerSplit best{.base = &base_, .first = first, .others = others, .seconds = INFINITY};
  for (int layers : first_layers ? std::vector{*first_layers} : counts_worth_a_try(a, b)) {
    if (layers < (first_layers ? 0 : 1) || layers > choices_.layers) continue;
    const double one = seconds(a, b, layers);
    if (one >= best.seconds || !fits_host(a, b, layers) || !fits_device(a, b, layers)) continue;
    best.seconds = one;
    best.layers = layers;
  }
  return best.seconds < INFINITY ? std::optional(best) : std::nullopt;
}

// Time is piecewise linear in the number of first layers, with bends where the link becomes the
// limit, and the numbers that fit form a range. So the best number is at an end of the range or at
// a bend. The result may contain numbers that are no numbers of layers of the model.
std::vector<int> StepFormula::counts_worth_a_try(const Assignment& first,
                                                 const Assignment& others) const {
  std::vector<int> counts{1, choices_.layers};
  if (&first == &others) return counts;
  std::ranges::copy(ends_of_what_fits(first, others), std::back_inserter(counts));
  std::ranges::copy(counts_that_fill_the_link(first, others), std::back_inserter(counts));
  return counts;
}

// The more first layers, the less or the more device memory is missing, and so with host memory.
// For each of them, the last number that fits on the way to one that does not.
std::vector<int> StepFormula::ends_of_what_fits(const Assignment& first,
                                                const Assignment& others) const {
  std::vector<int> ends;
  for (auto fits_memory : {&StepFormula::fits_device, &StepFormula::fits_host}) {
    auto fits = [&](int layers) { return (this->*fits_memory)(first, others, layers); };
    int low = 1, high = choices_.layers;
    const bool low_fits = fits(low);
    if (low_fits == fits(high)) continue;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (fits(middle) == low_fits ? low : high) = middle;
    }
    ends.push_back(low_fits ? low : high);
  }
  return ends;
}

// For each pass, the two whole numbers next to the number of first layers with which copies take as
// long as the kernels of that pass.
std::vector<int> StepFormula::counts_that_fill_the_link(const Assignment& first,
                                                        const Assignment& others) const {
  const double seconds_a_layer =
      (first.offloaded_bytes - others.offloaded_bytes) / link_bytes_per_second_;
  if (seconds_a_layer == 0) return {};
  const double seconds_of_others =
      choices_.layers * others.offloaded_bytes / link_bytes_per_second_;
  const double micro_batches = static_cast<double>(choices_.micro_batches);
  std::vector<int> counts;
  for (double idle : {base_.forward.compute - base_.forward.to_host,
                      base_.backward.compute - base_.backward.to_device}) {
    const double layers = (idle / micro_batches - seconds_of_others) / seconds_a_layer;
    const int below = static_cast<int>(std::clamp(layers, -1.0, choices_.layers + 1.0));
    counts.insert(counts.end(), {below, below + 1});
  }
  return counts;
}

}  // namespace longshore::trainer
