#include "offload/virtual_backend.h"

#include <algorithm>
#include <map>

namespace longshore::offload {
namespace {

class VirtualBackend : public Backend {
 public:
  VirtualBackend(models::Target target, const Rates& rates) : target_(target), rates_(rates) {}

  models::Target target() const override { return target_; }
  std::byte* allocate(MemoryKind, int64_t) override { return nullptr; }
  void free(MemoryKind, std::byte*) override {}
  int64_t available_bytes(MemoryKind) override { return std::numeric_limits<int64_t>::max(); }

  void run(Lane lane, const models::Op& op, const models::KernelCall& call) override {
    models::Cost cost = op.cost(call.attrs, models::types_of(call.in), models::types_of(call.out));
    bool on_host = lane == Lane::host_compute;
    double flops = on_host ? rates_.host_flops_per_second : rates_.flops_per_second;
    double bytes = on_host ? rates_.host_bytes_per_second : rates_.device_bytes_per_second;
    spend(lane, std::max(cost.flops / flops, cost.bytes / bytes));
  }

  void copy(Lane lane, const models::Ref& from, const models::Ref&) override {
    spend(lane, static_cast<double>(from.type.bytes()) / rates_.link_bytes_per_second);
  }

  void record(Lane lane, int event) override { events_[event] = clock(lane); }
  void wait(Lane lane, int event) override {
    clock(lane) = std::max(clock(lane), events_.at(event));
  }
  void synchronize() override { clocks_.fill(*std::max_element(clocks_.begin(), clocks_.end())); }

  void start_recording() override {
    clocks_.fill(0);
    spans_ = {};
    is_recording_ = true;
  }
  LaneSpans stop_recording() override {
    is_recording_ = false;
    return std::move(spans_);
  }

  void write(MemoryKind, std::byte*, const void*, int64_t) override {}
  void read(MemoryKind, void*, const std::byte*, int64_t) override {}

 private:
  double& clock(Lane lane) { return clocks_[static_cast<size_t>(lane)]; }

  void spend(Lane lane, double seconds) {
    double begin = clock(lane);
    clock(lane) += rates_.launch_seconds + seconds;
    if (is_recording_) spans_[static_cast<size_t>(lane)].push_back({begin, clock(lane)});
  }

  models::Target target_;
  Rates rates_;
  std::array<double, kLanes.size()> clocks_{};  // seconds
  std::map<int, double> events_;
  LaneSpans spans_;
  bool is_recording_ = false;
};

}  // namespace

Rates nominal_rates(models::Target target) {
  if (target == models::Target::cuda)
    return {.flops_per_second = 5e14,
            .device_bytes_per_second = 3e12,
            .link_bytes_per_second = 5e10,
            .host_flops_per_second = 1e12,
            .host_bytes_per_second = 1e11,
            .launch_seconds = 5e-6};
  return {.flops_per_second = 4e11,
          .device_bytes_per_second = 3e10,
          .link_bytes_per_second = 1e10,
          .host_flops_per_second = 4e11,
          .host_bytes_per_second = 3e10,
          .launch_seconds = 2e-6};
}

std::unique_ptr<Backend> make_virtual_backend(models::Target target, const Rates& rates) {
  return std::make_unique<VirtualBackend>(target, rates);
}

}  // namespace longshore::offload
