#include "longshore/trainer/calibration/measure_links.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "longshore/base/timing.h"
#include "longshore/trainer/calibration/filled_memory.h"

namespace longshore::trainer {
namespace {

using offload::Backend;
using offload::Hardware;
using offload::Lane;
using offload::MemoryKind;
using offload::RateCurve;

// Copies of one size between host and device.
class Copies {
 public:
  Copies(Backend& backend, int64_t bytes)
      : backend_(backend),
        type_{{bytes}, models::Dtype::uint8},
        device_(backend, MemoryKind::device, type_.dtype, 2 * bytes, Contents::small),
        host_(backend, MemoryKind::pinned_host, type_.dtype, 2 * bytes, Contents::small) {}

  void enqueue(Lane lane, int times) const {
    int64_t half = lane == Lane::host_to_device ? 0 : type_.bytes();
    models::Ref device{device_.get() + half, type_}, host{host_.get() + half, type_};
    for (int i = 0; i < times; ++i)
      lane == Lane::host_to_device ? backend_.copy(lane, host, device)
                                   : backend_.copy(lane, device, host);
  }

  // The seconds of one copy, or of one on each of several lanes at the same time.
  double seconds(std::initializer_list<Lane> lanes, int times) const {
    constexpr int kTimings = 6;
    return quickest_seconds(kTimings,
                            [&] {
                              for (Lane lane : lanes) enqueue(lane, times);
                              backend_.synchronize();
                            }) /
           times;
  }

 private:
  Backend& backend_;
  models::Type type_;
  FilledMemory device_, host_;
};

}  // namespace

void measure_links(Backend& backend, Hardware& hardware) {
  std::vector<RateCurve::Point> to_device, to_host;
  for (int64_t bytes : {int64_t{1} << 16, int64_t{1} << 20, int64_t{1} << 23, int64_t{1} << 26}) {
    Copies copies(backend, bytes);
    int times = static_cast<int>(std::max<int64_t>(2, (int64_t{1} << 27) / bytes));
    auto rate = [&](Lane lane) {
      return static_cast<double>(bytes) / copies.seconds({lane}, std::min(times, 200));
    };
    to_device.push_back({static_cast<double>(bytes), rate(Lane::host_to_device)});
    to_host.push_back({static_cast<double>(bytes), rate(Lane::device_to_host)});
  }
  hardware.link_to_device = RateCurve(to_device);
  hardware.link_to_host = RateCurve(to_host);
  if (hardware.takes_turns()) return;  // copies in the two directions never run at the same time
  Copies copies(backend, int64_t{1} << 26);
  double alone = std::max(copies.seconds({Lane::host_to_device}, 4),
                          copies.seconds({Lane::device_to_host}, 4));
  double together = copies.seconds({Lane::host_to_device, Lane::device_to_host}, 4);
  hardware.link_both_ways = std::min(1.0, alone / together);
}

}  // namespace longshore::trainer
