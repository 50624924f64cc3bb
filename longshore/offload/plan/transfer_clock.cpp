#include "longshore/offload/plan/transfer_clock.h"

#include <algorithm>
#include <cmath>

namespace longshore::offload {
namespace {

// One update ahead is not enough where several transfers wait for one long kernel.
constexpr double kUpdatesPerLayer = 4;

}  // namespace

double TransferClock::TimeScale::time_of(int tick, int unit, int end) const {
  const int length = std::max(1, end_of(unit, end) - begins_[unit]);
  return unit + static_cast<double>(tick - begins_[unit]) / length;
}

int TransferClock::TimeScale::tick_at(double time, int end) const {
  if (time <= 0) return 0;
  if (time >= units()) return end;
  const int unit = static_cast<int>(time);
  const int length = end_of(unit, end) - begins_[unit];
  // Times that are ticks but for rounding errors stay these ticks.
  return begins_[unit] + static_cast<int>(std::ceil((time - unit) * length - 1e-9));
}

int TransferClock::TimeScale::unit_at(int tick) const {
  return static_cast<int>(std::ranges::upper_bound(begins_, tick) - begins_.begin()) - 1;
}

TransferClock::TransferClock(const Plan& plan, double prefetch_layers, Ticks ticks)
    : prefetch_layers_(prefetch_layers) {
  const Scope *layer = nullptr, *update = nullptr;  // those of the units that began last
  for (int i = 0; i < std::ssize(plan.instructions); ++i) {
    const Instruction& instruction = plan.instructions[i];
    const bool is_update = instruction.scope.phase == Phase::optimizer;
    // Updates may stand among the instructions of a layer, which goes on after them.
    const bool is_update_time = is_update && ticks == Ticks::all;
    // Collectives and fetches also stand within layers that they do not belong to, and so do
    // updates: these begin no layer.
    const bool begins_no_unit = instruction.lane == Lane::network ||
                                instruction.lane == Lane::host_to_device ||
                                (is_update && !is_update_time);
    const Scope*& scope = is_update_time ? update : layer;
    TimeScale& scale = is_update_time ? updates_ : layers_;
    if (!scope || (!begins_no_unit && *scope != instruction.scope)) {
      scale.begin_unit(end());
      scope = &instruction.scope;
    }
    const bool computes = instruction.lane == Lane::compute;
    moments_.push_back({.is_update_time = is_update_time,
                        .computes = computes,
                        .unit = scale.units() - 1,
                        .tick = end()});
    if (computes && (!is_update || is_update_time)) ticks_.push_back(i);
  }
}

bool TransferClock::are_near(int earlier, int later) const {
  const int ticks = moments_[later].tick - moments_[earlier].tick;
  return ticks <= 1 || moments_[earlier].tick >= tick_apart(moments_[later], -1);
}

int TransferClock::fetch_start(int instruction) const {
  return std::min(instruction, instruction_at(tick_apart(moments_[instruction], -1)));
}

int TransferClock::keep_end(int instruction) const {
  const Moment& moment = moments_[instruction];
  // The tick of an instruction that does not compute is that of the next one which does.
  const int tick = tick_apart(moment, 1) - (moment.computes ? 0 : 1);
  return std::max(instruction, instruction_at(std::max(0, tick)));
}

int TransferClock::tick_apart(const Moment& moment, int direction) const {
  if (!moment.is_update_time)
    return layers_.tick_at(
        layers_.time_of(moment.tick, moment.unit, end()) + direction * prefetch_layers_, end());
  const double time = updates_.time_of(moment.tick, moment.unit, end()) +
                      direction * prefetch_layers_ * kUpdatesPerLayer;
  // Layers that follow the last update go on measuring time.
  const int layer = layers_.unit_at(moment.tick);
  if (time >= updates_.units() && layer >= 0)
    return layers_.tick_at(layers_.time_of(moment.tick, layer, end()) + prefetch_layers_, end());
  return updates_.tick_at(time, end());
}

int TransferClock::instruction_at(int tick) const {
  return tick < end() ? ticks_[tick] : static_cast<int>(moments_.size()) - 1;
}

}  // namespace longshore::offload
