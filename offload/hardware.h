// What a machine can do: sizes of its memories, rates of its lanes. Plans are timed with it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/op.h"
#include "offload/memory.h"
#include "offload/plan.h"

namespace longshore::offload {

// A rate that depends on the size of the work: straight between points in the logarithms of both,
// constant before the first and behind the last. Without points it is infinite.
class RateCurve {
 public:
  using Point = std::pair<double, double>;  // size, rate

  RateCurve() = default;
  RateCurve(double rate) : points_{{1, rate}} {}
  // Sizes ascend; all are positive.
  explicit RateCurve(std::vector<Point> points) : points_(std::move(points)) {}

  double at(double size) const;
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
};

struct Hardware {
  std::string name;
  models::Target target = models::Target::cpu;
  int64_t device_bytes = 0;           // of one device
  int64_t device_reserved_bytes = 0;  // of these: what the driver and libraries take
  int64_t host_bytes = 0;             // that a device can pin
  // Of dense products, by dtype: what MFU is against.
  std::map<models::Dtype, double> peak_flops_per_second;

  // A kernel takes its launch, and the longer of its FLOPs and its operands' bytes at their rates.
  // Curves are found by op and dtype ("linear.bf16"), by op, by class and dtype ("matmul.bf16") or
  // by class; those of host kernels begin with "host.".
  double launch_seconds = 0;
  std::map<std::string, RateCurve> flops_per_second;  // by FLOPs
  std::map<std::string, RateCurve> bytes_per_second;  // by bytes

  // Kernels' rates are those with operands in the cache. The `cache_bytes` that were used last are
  // there; others are fetched first, at `fetch_bytes_per_second`. 0: a cache makes no difference.
  int64_t cache_bytes = 0;
  double fetch_bytes_per_second = 0;

  // Of copies: each way alone, and the part that is left of it while the other way is busy.
  RateCurve link_to_device, link_to_host;  // bytes/s by bytes
  double link_both_ways = 1;
  // Devices of a node that share a link to the host when all of them use it; what the links of a
  // node together can move, bytes/s each way, infinite where 0; and whether devices reach each
  // other without them.
  int gpus_per_link = 1;
  double host_bandwidth = 0;
  bool peer_to_peer = false;
  // Of collectives: what a device sends a second, by the bytes it sends; to others in its node, and
  // to other nodes.
  RateCurve ici, dcn;

  // Whether kernels, copies and updates on the host take turns on the same cores: where the device
  // is the host's processor.
  bool takes_turns() const { return !models::is_cuda(target); }

  double kernel_seconds(Lane lane, const models::Op& op, const std::any& attrs,
                        std::span<const models::Type> in, std::span<const models::Type> out) const;
  // What a kernel or copy takes longer when `bytes` of its operands are not in the cache.
  double fetch_seconds(int64_t bytes) const;
  // On Lane::compute a copy within the device.
  double copy_seconds(Lane lane, int64_t bytes, bool other_way_is_busy = false) const;
  // Between nodes the ranks of a node send side by side.
  double collective_seconds(const models::Op& op, const std::any& attrs,
                            const models::Type& in) const;

  // This hardware as one of `devices` of a node sees it when all of them use their links. The
  // host's memory and cores stay: profiles give a device's share of them.
  Hardware shared_by(int64_t devices) const;
};

// The same rates whatever the size; infinite where 0.
struct Rates {
  double flops_per_second = 0;
  double device_bytes_per_second = 0;
  double link_bytes_per_second = 0;  // each way
  double host_flops_per_second = 0;
  double host_bytes_per_second = 0;
  double launch_seconds = 0;
};

Hardware uniform_hardware(models::Target target, const Rates& rates);

// A device of that kind in round numbers: a data centre's GPU on PCIe 5, a desktop processor. For
// choices that depend on proportions, where no profile is named.
Hardware nominal_hardware(models::Target target);

}  // namespace longshore::offload
