// The clock that decides when transfers begin and until when buffers are held for them. It measures
// time in layers of compute instructions, so that a transfer which starts one layer ahead of its
// use has the same kernels to hide behind in models of any size.
#pragma once

#include <cstdint>
#include <vector>

#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

// Which compute instructions are ticks of the clock.
enum class Ticks : uint8_t {
  all,
  // Those that update parameters are not. Devices differ in how their shares of a bucket are
  // updated, and so in these instructions; what all devices do together must not depend on them.
  layers_only,
};

class TransferClock {
 public:
  // Transfers run ahead of their uses, and buffers are held, by `prefetch_layers` layers. For
  // updates of parameters, four updates count as a layer.
  TransferClock(const Plan& plan, double prefetch_layers, Ticks ticks = Ticks::all);

  // Whether two uses of a staged range are so near to each other that it stays on the device in
  // between.
  bool are_near(int earlier, int later) const;
  // The instruction before which a transfer starts whose result `instruction` uses.
  int fetch_start(int instruction) const;
  // The instruction until which a buffer is held that is sent by, or right after, `instruction`.
  int keep_end(int instruction) const;

 private:
  // Converts between ticks and times. Ticks are divided into units, which are layers or updates;
  // each unit lasts one unit of time, however many ticks it has.
  class TimeScale {
   public:
    // Begins a unit, which ends where the next one begins.
    void begin_unit(int tick) { begins_.push_back(tick); }
    int units() const { return static_cast<int>(begins_.size()); }

    // The unit that a tick lies in; -1 before the first.
    int unit_at(int tick) const;
    // The last unit ends at `end`, the number of all ticks.
    double time_of(int tick, int unit, int end) const;
    // The first tick at or after that time: 0 before the first unit, `end` after the last.
    int tick_at(double time, int end) const;

   private:
    int end_of(int unit, int end) const { return unit + 1 < units() ? begins_[unit + 1] : end; }

    std::vector<int> begins_;  // ticks
  };

  // When an instruction is run.
  struct Moment {
    bool is_update_time;  // whether the unit is one of updates_, or else of layers_
    bool computes;        // whether the instruction is on Lane::compute
    int unit, tick;
  };

  int end() const { return static_cast<int>(ticks_.size()); }
  // The tick that is prefetch_layers_ before (-1) or after (+1) that moment.
  int tick_apart(const Moment& moment, int direction) const;
  // The instruction of a tick; the last of all instructions for ticks beyond the last.
  int instruction_at(int tick) const;

  double prefetch_layers_;
  TimeScale layers_, updates_;
  std::vector<Moment> moments_;  // by instruction
  std::vector<int> ticks_;       // instructions
};

}  // namespace longshore::offload
