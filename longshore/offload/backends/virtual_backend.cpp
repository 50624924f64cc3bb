#include "longshore/offload/backends/virtual_backend.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/offload/hardware/processor_cache.h"
#include "longshore/offload/memory/alignment.h"
#include "longshore/offload/plan/mesh.h"

namespace longshore::offload {
namespace {

class VirtualBackend : public Backend {
 public:
  explicit VirtualBackend(const Hardware& hardware)
      : hardware_(hardware), cache_(hardware.cache_bytes) {}

  models::Target target() const override { return hardware_.target; }
  // Gives distinct addresses, where there is no memory.
  std::byte* allocate(MemoryKind, int64_t bytes) override {
    std::byte* memory = reinterpret_cast<std::byte*>(next_address_);
    next_address_ += static_cast<uintptr_t>(align_up(bytes));
    return memory;
  }
  void free(MemoryKind, std::byte*) override {}
  int64_t available_bytes(MemoryKind) override { return std::numeric_limits<int64_t>::max(); }
  int64_t used_device_bytes() override { return 0; }

  void run(Lane lane, const models::Op& op, const models::KernelCall& call) override {
    if (lane == Lane::network) {
      const double alone = hardware_.collective_seconds(op, call.attrs, call.in[0].type);
      enqueue(lane, alone, alone / hardware_.link_both_ways);
      queue(lane).back().is_between_nodes = std::any_cast<const Collective&>(call.attrs).nodes > 1;
      return;
    }
    const double seconds = hardware_.kernel_seconds(lane, op, call.attrs, models::types_of(call.in),
                                                    models::types_of(call.out)),
                 fetching = fetch_seconds(call.in, call.out, call.workspace);
    const double beside = lane == Lane::compute ? hardware_.kernels_beside_dcn : 1;
    enqueue(lane, seconds + fetching, seconds / beside + fetching);
  }

  void copy(Lane lane, const models::Ref& from, const models::Ref& to) override {
    using enum Hardware::OtherDirection;
    const double fetching = fetch_seconds({&from, 1}, {&to, 1});
    const int64_t bytes = from.type.bytes();
    enqueue(lane, hardware_.copy_seconds(lane, bytes, idle) + fetching,
            hardware_.copy_seconds(lane, bytes, busy) + fetching);
  }

  void record(Lane lane, int event) override {
    records_[event] = static_cast<int>(recorded_.size());
    recorded_.push_back(kNever);
    queue(lane).push_back({.lane = lane, .records = records_[event]});
  }
  void wait(Lane lane, int event) override {
    queue(lane).push_back({.lane = lane, .waits_for = records_.at(event)});
  }
  void synchronize() override { finish_all(); }

  void start_recording() override {
    finish_all();
    now_ = 0;
    spans_ = {};
    is_recording_ = true;
  }
  LaneSpans stop_recording() override {
    finish_all();
    is_recording_ = false;
    return std::move(spans_);
  }

  void write(MemoryKind, std::byte*, const void*, int64_t) override {}
  void read(MemoryKind, void*, const std::byte*, int64_t) override {}
  void write_zeros(MemoryKind, std::byte*, int64_t) override {}

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // What a lane does, in its turn: work, or marking a moment, or waiting for one.
  struct Task {
    Lane lane;
    double seconds = 0, seconds_if_busy = 0;  // alone, and beside others that slow it
    bool is_between_nodes = false;            // a collective
    int records = -1, waits_for = -1;         // places in recorded_

    bool is_work() const { return records < 0 && waits_for < 0; }
  };

  // The work that a lane is at. Its speed changes when others that slow it begin or end.
  struct Work {
    double begin = 0;
    double since = 0, left = 1;  // the part of it that was left at `since`
    double seconds = 0;          // that all of it takes at today's speed; 0 before it has begun

    double end() const { return since + left * seconds; }
  };

  // Lanes that take turns share a queue: the instruction that comes first in the plan has the first
  // turn.
  Lane queue_of(Lane lane) const {
    return hardware_.takes_turns() && lane != Lane::network ? Lane::compute : lane;
  }
  std::deque<Task>& queue(Lane lane) { return queues_[queue_of(lane)]; }

  void enqueue(Lane lane, double seconds, double seconds_if_busy) {
    queue(lane).push_back({.lane = lane, .seconds = seconds, .seconds_if_busy = seconds_if_busy});
  }

  // Lets the time pass until all queues are empty.
  void finish_all() {
    while (mark_moments()) {
      double next = kNever;
      for (Lane lane : kLanes)
        if (is_at_work(lane)) {
          choose_speed(lane);
          next = std::min(next, works_[lane].end());
        }
      if (next == kNever) throw InternalError("lanes wait for each other");
      now_ = next;
      PerLane<bool> is_done{};  // before the next in a queue comes to its front
      for (Lane lane : kLanes) is_done[lane] = is_at_work(lane) && works_[lane].end() <= now_;
      for (Lane lane : kLanes)
        if (is_done[lane]) finish(lane);
    }
    recorded_.clear();
    records_.clear();
  }

  // Does all that takes no time. Returns whether anything is left to do.
  bool mark_moments() {
    bool is_changed = true, is_left = false;
    while (is_changed) {
      is_changed = is_left = false;
      for (std::deque<Task>& queue : queues_) {
        while (!queue.empty() && !queue.front().is_work()) {
          const Task& task = queue.front();
          if (task.waits_for >= 0 && recorded_[task.waits_for] == kNever) break;
          if (task.records >= 0) recorded_[task.records] = now_;
          queue.pop_front();
          is_changed = true;
        }
        is_left = is_left || !queue.empty();
      }
    }
    return is_left;
  }

  bool is_at_work(Lane lane) const {
    const std::deque<Task>& queue = queues_[queue_of(lane)];
    return !queue.empty() && queue.front().is_work() && queue.front().lane == lane;
  }

  // Whether others are at work that slow the lane: those on the link that it uses, which
  // collectives are where devices reach each other through the host; and of kernels, collectives
  // between nodes.
  bool is_slowed(Lane lane) const {
    const bool to_device = is_at_work(Lane::host_to_device),
               to_host = is_at_work(Lane::device_to_host),
               across = !hardware_.peer_to_peer && is_at_work(Lane::network);
    switch (lane) {
      case Lane::compute:
        return is_at_work(Lane::network) && queues_[Lane::network].front().is_between_nodes;
      case Lane::host_to_device:
        return to_host || across;
      case Lane::device_to_host:
        return to_device || across;
      case Lane::network:
        return across && (to_device || to_host);
      default:
        return false;
    }
  }

  void choose_speed(Lane lane) {
    const Task& task = queue(lane).front();
    Work& work = works_[lane];
    const double seconds = is_slowed(lane) ? task.seconds_if_busy : task.seconds;
    if (work.seconds == seconds && work.seconds > 0) return;
    if (work.seconds == 0)
      work.begin = now_;
    else
      work.left -= (now_ - work.since) / work.seconds;
    work.since = now_;
    work.seconds = seconds;
  }

  void finish(Lane lane) {
    if (is_recording_) spans_[lane].push_back({works_[lane].begin, now_});
    queue(lane).pop_front();
    works_[lane] = {};
  }

  // The time to fetch operands that are not in the cache. Operands that together are larger than
  // the cache take none, since they were not in the cache either when the rates were measured.
  double fetch_seconds(std::span<const models::Ref> in, std::span<const models::Ref> out,
                       std::span<const std::byte> workspace = {}) {
    if (hardware_.cache_bytes == 0) return 0;
    cache_.use(workspace.data(), std::ssize(workspace));
    int64_t fetched = 0, used = 0;
    for (std::span<const models::Ref> refs : {in, out})
      for (const models::Ref& ref : refs) {
        const bool is_in_place = refs.data() == out.data() &&
                                 std::ranges::find(in, ref.data, &models::Ref::data) != in.end();
        if (!is_in_place) used += ref.type.bytes();
        fetched += cache_.use(static_cast<const std::byte*>(ref.data), ref.type.bytes());
      }
    return used > hardware_.cache_bytes ? 0 : hardware_.fetch_seconds(fetched);
  }

  const Hardware hardware_;
  ProcessorCache cache_;
  uintptr_t next_address_ = kArenaAlignment;
  double now_ = 0;  // seconds
  PerLane<std::deque<Task>> queues_;
  PerLane<Work> works_{};
  std::vector<double> recorded_;  // when each moment was that a lane marked
  std::map<int, int> records_;    // the latest of an event
  LaneSpans spans_;
  bool is_recording_ = false;
};

}  // namespace

std::unique_ptr<Backend> make_virtual_backend(const Hardware& hardware) {
  return std::make_unique<VirtualBackend>(hardware);
}

}  // namespace longshore::offload
