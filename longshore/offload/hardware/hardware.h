// Hardware describes what a machine can do: the sizes of its memories and the rates of its lanes,
// by which plans are timed. Bytes count as such (1 GiB is 2^30), times are in seconds, rates in
// FLOP/s or bytes/s.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "longshore/models/ir/op.h"
#include "longshore/offload/memory/memory.h"
#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

// A rate (FLOP/s or bytes/s) as a function of the size of the work (FLOPs or bytes). Between two
// points the logarithm of the rate is linear in that of the size; before the first point and after
// the last the rate is constant. Without points it is infinite.
class RateCurve {
 public:
  using Point = std::pair<double, double>;  // size, rate

  RateCurve() = default;
  RateCurve(double rate) : points_{{1, rate}} {}
  // Sizes ascend; sizes and rates are positive.
  explicit RateCurve(std::vector<Point> points) : points_(std::move(points)) {}

  double at(double size) const;
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
};

// How the figures of a profile are known, from the least to the best.
enum class ProfileSource {
  unstated,
  data_sheet,      // data sheets, others' measurements of single kernels, and assumptions
  published_runs,  // as data_sheet, and compared with what others published of whole runs, or set
                   // by it
  measured,        // on the device itself
};

const char* name(ProfileSource source);  // "data_sheet"

struct Hardware {
  std::string name;
  ProfileSource source = ProfileSource::unstated;
  models::Target target = models::Target::cpu;
  int64_t device_bytes = 0;           // bytes of memory of one device
  int64_t device_reserved_bytes = 0;  // bytes of these that the driver and libraries take
  int64_t host_bytes = 0;             // bytes of host memory that one device can pin
  // FLOP/s of dense matrix products by dtype. MFU is relative to this.
  std::map<models::Dtype, double> peak_flops_per_second;

  // A kernel takes `launch_seconds`, plus the longer of two times: its FLOPs at their rate, and the
  // bytes of its operands at theirs. The rate curves of a kernel are those of its op and dtype
  // ("linear.bf16"), else of its op ("linear"), else of its class and dtype ("matmul.bf16"), else
  // of its class ("matmul"). Those of an op's variant ("attention_grad_any_order.bf16") come before
  // them. The names for kernels on the host begin with "host.". The FLOP/s of products of experts
  // ("grouped") are by the rows of an expert, on average; where there are none, by those of
  // "matmul".
  double launch_seconds = 0;                          // seconds, of copies and collectives too
  std::map<std::string, RateCurve> flops_per_second;  // FLOP/s by FLOPs, or by rows
  std::map<std::string, RateCurve> bytes_per_second;  // bytes/s by bytes

  // These rates hold for operands in the cache. The cache has the `cache_bytes` that were used
  // last; others have to be fetched first. 0: fetching takes no time.
  int64_t cache_bytes = 0;            // bytes that the cache holds
  double fetch_bytes_per_second = 0;  // bytes/s from memory into the cache

  // The link between a device and its host.
  RateCurve link_to_device, link_to_host;  // bytes/s by bytes, while the other direction is idle
  double link_both_ways = 1;               // the fraction of that while the other direction is busy
  int gpus_per_link = 1;      // devices of a node that share one link if all of them use it
  double host_bandwidth = 0;  // bytes/s that all links of a node carry each way; 0: no limit
  bool peer_to_peer = false;  // whether devices reach each other without these links

  // What a device sends in collectives: within its node, on each of its links, and to other nodes.
  RateCurve ici, dcn;   // bytes/s by bytes
  RateCurve ici_links;  // links at work, by the devices of a node that take part; none: one
  double dcn_contention =
      0;  // the part of dcn's rate that each doubling of the nodes beyond 2 takes
  // Latency of each hop from device to device of a collective between nodes: to one of the same
  // node, and to one of another. Within one node, `ici` is with its latency.
  double ici_hop_seconds = 0, dcn_hop_seconds = 0;
  // The fraction of their rate that kernels reach while a collective between nodes runs beside
  // them, which takes multiprocessors, memory's rate and power from them.
  double kernels_beside_dcn = 1;

  // Whether kernels, copies and updates on the host take turns on the same cores, which they do if
  // the device is the host's processor.
  bool takes_turns() const { return !models::is_cuda(target); }

  enum class OtherDirection { idle, busy };

  double kernel_seconds(Lane lane, const models::Op& op, const std::any& attrs,
                        std::span<const models::Type> in, std::span<const models::Type> out) const;
  // The time that a kernel or copy takes longer if `bytes` of its operands are not in the cache.
  double fetch_seconds(int64_t bytes) const;
  // A copy on Lane::compute is one within the device, for which the link's other direction does not
  // matter.
  double copy_seconds(Lane lane, int64_t bytes,
                      OtherDirection other_direction = OtherDirection::idle) const;
  // A collective goes around a ring, and all_reduce between nodes through a tree where that is
  // quicker. The ranks of a node send to other nodes at the same time, each at the rate of `dcn`.
  double collective_seconds(const models::Op& op, const std::any& attrs,
                            const models::Type& in) const;

  // This hardware as one device sees it if `devices` devices of its node use their links. Memory
  // and cores of the host remain as they are, since profiles give one device's share of them.
  Hardware shared_by(int64_t devices) const;
};

// Rates that do not depend on the size of the work. A rate of 0 stands for an infinite one.
struct Rates {
  double flops_per_second = 0;         // FLOP/s of kernels on the device
  double device_bytes_per_second = 0;  // bytes/s of kernels on the device
  double link_bytes_per_second = 0;    // bytes/s of copies, each way
  double host_flops_per_second = 0;    // FLOP/s of kernels on the host
  double host_bytes_per_second = 0;    // bytes/s of kernels on the host
  double launch_seconds = 0;           // seconds of any kernel or copy
};

Hardware uniform_hardware(models::Target target, const Rates& rates);

// A typical device of that kind in round numbers: a data centre's GPU on PCIe 5, or a desktop
// processor. If no profile is named, choices that depend on proportions only are made with it.
Hardware nominal_hardware(models::Target target);

}  // namespace longshore::offload
