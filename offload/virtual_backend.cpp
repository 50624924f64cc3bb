#include "offload/virtual_backend.h"

#include <algorithm>
#include <limits>
#include <map>

#include "offload/alignment.h"
#include "offload/processor_cache.h"

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
  int64_t used_bytes(MemoryKind) override { return 0; }

  void run(Lane lane, const models::Op& op, const models::KernelCall& call) override {
    if (lane == Lane::network)
      return spend(lane, hardware_.collective_seconds(op, call.attrs, call.in[0].type));
    double seconds = hardware_.kernel_seconds(lane, op, call.attrs, models::types_of(call.in),
                                              models::types_of(call.out));
    spend(lane, seconds + fetch_seconds(call.in, call.out, call.workspace));
  }

  void copy(Lane lane, const models::Ref& from, const models::Ref& to) override {
    const double fetching = fetch_seconds({&from, 1}, {&to, 1});
    if (lane == Lane::compute)
      return spend(lane, hardware_.copy_seconds(lane, from.type.bytes()) + fetching);
    Lane other = lane == Lane::host_to_device ? Lane::device_to_host : Lane::host_to_device;
    bool other_is_busy = is_busy(other, clock(lane)) ||
                         (!hardware_.peer_to_peer && is_busy(Lane::network, clock(lane)));
    auto other_direction =
        other_is_busy ? Hardware::OtherDirection::busy : Hardware::OtherDirection::idle;
    spend(lane, hardware_.copy_seconds(lane, from.type.bytes(), other_direction) + fetching);
  }

  void record(Lane lane, int event) override { events_[event] = clock(lane); }
  void wait(Lane lane, int event) override {
    clock(lane) = std::max(clock(lane), events_.at(event));
  }
  void synchronize() override { clocks_.fill(*std::max_element(clocks_.begin(), clocks_.end())); }

  void start_recording() override {
    clocks_.fill(0);
    latest_ = {};
    spans_ = {};
    is_recording_ = true;
  }
  LaneSpans stop_recording() override {
    is_recording_ = false;
    return std::move(spans_);
  }

  void write(MemoryKind, std::byte*, const void*, int64_t) override {}
  void read(MemoryKind, void*, const std::byte*, int64_t) override {}
  void write_zeros(MemoryKind, std::byte*, int64_t) override {}

 private:
  // Lanes that take turns share a clock: the instruction that comes first in the plan has the first
  // turn.
  double& clock(Lane lane) {
    if (hardware_.takes_turns() && lane != Lane::network) lane = Lane::compute;
    return clocks_[lane];
  }
  Span& latest(Lane lane) { return latest_[lane]; }

  bool is_busy(Lane lane, double then) {
    return latest(lane).begin <= then && then < latest(lane).end;
  }

  void spend(Lane lane, double seconds) {
    latest(lane) = {clock(lane), clock(lane) + seconds};
    clock(lane) += seconds;
    if (is_recording_) spans_[lane].push_back(latest(lane));
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
        used += ref.type.bytes();
        fetched += cache_.use(static_cast<const std::byte*>(ref.data), ref.type.bytes());
      }
    return used > hardware_.cache_bytes ? 0 : hardware_.fetch_seconds(fetched);
  }

  const Hardware hardware_;
  ProcessorCache cache_;
  uintptr_t next_address_ = kArenaAlignment;
  PerLane<double> clocks_{};  // seconds
  PerLane<Span> latest_{};
  std::map<int, double> events_;
  LaneSpans spans_;
  bool is_recording_ = false;
};

}  // namespace

std::unique_ptr<Backend> make_virtual_backend(const Hardware& hardware) {
  return std::make_unique<VirtualBackend>(hardware);
}

}  // namespace longshore::offload
