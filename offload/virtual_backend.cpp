#include "offload/virtual_backend.h"

#include <algorithm>
#include <limits>
#include <map>

namespace longshore::offload {
namespace {

class VirtualBackend : public Backend {
 public:
  explicit VirtualBackend(const Hardware& hardware) : hardware_(hardware) {}

  models::Target target() const override { return hardware_.target; }
  std::byte* allocate(MemoryKind, int64_t) override { return nullptr; }
  void free(MemoryKind, std::byte*) override {}
  int64_t available_bytes(MemoryKind) override { return std::numeric_limits<int64_t>::max(); }

  void run(Lane lane, const models::Op& op, const models::KernelCall& call) override {
    if (lane == Lane::network)
      return spend(lane, hardware_.collective_seconds(op, call.attrs, call.in[0].type));
    double seconds = hardware_.kernel_seconds(lane, op, call.attrs, models::types_of(call.in),
                                              models::types_of(call.out));
    for (Lane copying : kCopyLanes)
      if (lane == Lane::compute) seconds += slowed(clock(lane), clock(lane) + seconds, copying);
    if (!models::is_cuda(hardware_.target)) seconds += lost_to_other_kernels(lane, seconds);
    spend(lane, seconds);
  }

  void copy(Lane lane, const models::Ref& from, const models::Ref&) override {
    if (lane == Lane::compute) return spend(lane, hardware_.copy_seconds(lane, from.type.bytes()));
    Lane other = lane == Lane::host_to_device ? Lane::device_to_host : Lane::host_to_device;
    bool other_is_busy = is_busy(other, clock(lane)) ||
                         (!hardware_.peer_to_peer && is_busy(Lane::network, clock(lane)));
    double begin = clock(lane);
    spend(lane, hardware_.copy_seconds(lane, from.type.bytes(), other_is_busy));
    // A kernel that was begun before loses what it shares with this copy.
    double& computing = clock(Lane::compute);
    computing += loss(std::min(clock(lane), computing) - begin);
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

 private:
  static constexpr std::array kCopyLanes{Lane::host_to_device, Lane::device_to_host};

  double& clock(Lane lane) { return clocks_[static_cast<size_t>(lane)]; }
  Span& latest(Lane lane) { return latest_[static_cast<size_t>(lane)]; }

  bool is_busy(Lane lane, double then) {
    return latest(lane).begin <= then && then < latest(lane).end;
  }

  void spend(Lane lane, double seconds) {
    latest(lane) = {clock(lane), clock(lane) + seconds};
    clock(lane) += seconds;
    if (is_recording_) spans_[static_cast<size_t>(lane)].push_back(latest(lane));
  }

  double loss(double shared) const {
    return std::max(0.0, shared) * (1 / hardware_.kernels_beside_copies - 1);
  }
  // What a kernel in that time loses to the copy that a lane was given last.
  double slowed(double begin, double end, Lane copying) {
    return loss(std::min(end, latest(copying).end) - std::max(begin, latest(copying).begin));
  }

  // Where the device is the host's processor the kernels of both lanes run on the same cores: while
  // both are busy each gets half of them, so each loses what the shorter one has to do. The other
  // lane's clock does here.
  double lost_to_other_kernels(Lane lane, double seconds) {
    const Lane other = lane == Lane::compute ? Lane::host_compute : Lane::compute;
    double begin = clock(lane);
    if (other == Lane::host_compute) begin = std::max(begin, latest(other).begin);
    const double left = seconds - (begin - clock(lane));
    const double lost = std::max(0.0, std::min(clock(other) - begin, left));
    clock(other) += lost;
    return lost;
  }

  const Hardware hardware_;
  std::array<double, kLanes.size()> clocks_{};  // seconds
  std::array<Span, kLanes.size()> latest_{};
  std::map<int, double> events_;
  LaneSpans spans_;
  bool is_recording_ = false;
};

}  // namespace

std::unique_ptr<Backend> make_virtual_backend(const Hardware& hardware) {
  return std::make_unique<VirtualBackend>(hardware);
}

}  // namespace longshore::offload
