#include "longshore/offload/execution/simulate.h"

#include <algorithm>
#include <memory>

#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"

namespace longshore::offload {
namespace {

std::vector<const Plan*> plans_of(const std::vector<PlanRuns>& runs) {
  std::vector<const Plan*> plans;
  for (const PlanRuns& one : runs) plans.push_back(one.plan);
  return plans;
}

class Simulation {
 public:
  Simulation(const std::vector<PlanRuns>& plans, const Hardware& hardware)
      : plans_(plans),
        has_cache_(hardware.cache_bytes > 0),
        backend_(make_virtual_backend(hardware)),
        arenas_(*backend_, plans_of(plans)),
        arguments_(*backend_, ledger_) {
    for (const PlanRuns& one : plans)
      executables_.push_back(
          std::make_unique<Executable>(*one.plan, *backend_, arguments_, arenas_));
  }

  std::vector<SimulatedRuns> run() {
    if (has_cache_) run_all();  // fills the cache with what the previous step used last
    simulated_.clear();
    run_all();
    return std::move(simulated_);
  }

 private:
  void run_all() {
    for (size_t i = 0; i < plans_.size(); ++i) {
      const int64_t times = plans_[i].times;
      if (!has_cache_ || times == 1) {
        record(i, 0, times);
        continue;
      }
      record(i, 0, 1);
      pass_over(*plans_[i].plan, times - 3);
      // What a run uses, the run before used as well. So all runs but the first find the same in
      // the cache: it is the last used of all that anything used since.
      if (times > 2) executables_[i]->run(ledger_, times - 2);
      record(i, times - 1, times - 1);
    }
  }

  // Run number `number` stands for `times` runs.
  void record(size_t plan, int64_t number, int64_t times) {
    backend_->start_recording();
    executables_[plan]->run(ledger_, number);
    SimulatedRuns runs{.times = times,
                       .events = timeline({plans_[plan].plan}, backend_->stop_recording())};
    for (const Event& event : runs.events) runs.seconds = std::max(runs.seconds, event.span.end);
    simulated_.push_back(std::move(runs));
  }

  // Has the cache see what `count` runs after the first read that no other run reads.
  void pass_over(const Plan& plan, int64_t count) {
    if (count <= 0) return;
    for (const Instruction& instruction : plan.instructions)
      for (const Operand& in : instruction.in) {
        const Buffer& buffer = plan.buffers[in.buffer];
        if (buffer.run_stride == 0) continue;
        std::byte* memory =
            arguments_.at(buffer.name, buffer.bytes, buffer.kind, buffer.category) + in.offset;
        const models::Ref parts{memory + buffer.run_stride,
                                {{count * buffer.run_stride}, models::Dtype::uint8}};
        backend_->copy(Lane::compute, parts, parts);
      }
  }

  const std::vector<PlanRuns>& plans_;
  bool has_cache_;
  std::unique_ptr<Backend> backend_;
  Ledger ledger_;
  Arenas arenas_;
  Arguments arguments_;
  std::vector<std::unique_ptr<Executable>> executables_;
  std::vector<SimulatedRuns> simulated_;
};

}  // namespace

std::vector<SimulatedRuns> simulate_runs(const std::vector<PlanRuns>& plans,
                                         const Hardware& hardware) {
  return Simulation(plans, hardware).run();
}

std::vector<Event> events_of(const std::vector<SimulatedRuns>& runs) {
  std::vector<Event> events;
  double begin = 0;
  for (const SimulatedRuns& one : runs)
    for (int64_t i = 0; i < one.times; ++i) {
      for (Event event : one.events) {
        event.span.begin += begin;
        event.span.end += begin;
        events.push_back(std::move(event));
      }
      begin += one.seconds;
    }
  return events;
}

std::vector<Event> simulate(const std::vector<const Plan*>& plans, const Hardware& hardware) {
  std::vector<PlanRuns> once;
  for (const Plan* plan : plans) once.push_back({.plan = plan});
  return events_of(simulate_runs(once, hardware));
}

}  // namespace longshore::offload
