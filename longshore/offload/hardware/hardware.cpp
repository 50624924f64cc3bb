#include "longshore/offload/hardware/hardware.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "longshore/offload/plan/mesh.h"

namespace longshore::offload {
namespace {

using RateCurves = std::map<std::string, RateCurve>;

const RateCurve* find(const RateCurves& curves, std::initializer_list<std::string> works) {
  for (const std::string& work : works)
    if (auto found = curves.find(work); found != curves.end()) return &found->second;
  return nullptr;
}

const RateCurve* find(const RateCurves& curves, Lane lane, const models::Op& op,
                      const std::any& attrs, models::Dtype dtype) {
  const std::string prefix = lane == Lane::host_compute ? "host." : "";
  const std::string suffix = std::string(".") + models::name(dtype);
  if (const char* variant = op.rate_name(attrs); variant != op.name)
    if (const RateCurve* found = find(curves, {prefix + variant + suffix, prefix + variant}))
      return found;
  const std::string of_op = prefix + op.name, of_class = prefix + name(op.op_class);
  return find(curves, {of_op + suffix, of_op, of_class + suffix, of_class});
}

// Where a profile has no rates of experts' products, they are products like others.
const RateCurve* find_of_products(const RateCurves& curves, Lane lane, models::Dtype dtype) {
  const std::string prefix = lane == Lane::host_compute ? "host." : "";
  const std::string of_class = prefix + name(models::OpClass::matmul);
  return find(curves, {of_class + "." + models::name(dtype), of_class});
}

double seconds(const RateCurve* curve, double size) {
  return curve && size > 0 ? size / curve->at(size) : 0;
}

}  // namespace

const char* name(ProfileSource source) {
  switch (source) {
    case ProfileSource::unstated:
      return "unstated";
    case ProfileSource::data_sheet:
      return "data_sheet";
    case ProfileSource::published_runs:
      return "published_runs";
    case ProfileSource::measured:
      return "measured";
  }
  return "";
}

double RateCurve::at(double size) const {
  if (points_.empty()) return std::numeric_limits<double>::infinity();
  auto above = std::upper_bound(points_.begin(), points_.end(), size,
                                [](double s, const Point& point) { return s < point.first; });
  if (above == points_.begin()) return points_.front().second;
  if (above == points_.end()) return points_.back().second;
  const auto& [low, low_rate] = *std::prev(above);
  const auto& [high, high_rate] = *above;
  double part = std::log(size / low) / std::log(high / low);
  return low_rate * std::pow(high_rate / low_rate, part);
}

double Hardware::kernel_seconds(Lane lane, const models::Op& op, const std::any& attrs,
                                std::span<const models::Type> in,
                                std::span<const models::Type> out) const {
  models::Cost cost = op.cost(attrs, in, out);
  models::Dtype dtype = in.empty() ? out[0].dtype : in[0].dtype;
  const RateCurve *flops_rate = find(flops_per_second, lane, op, attrs, dtype),
                  *bytes_rate = find(bytes_per_second, lane, op, attrs, dtype);
  const bool is_grouped = op.op_class == models::OpClass::grouped;
  if (is_grouped && !bytes_rate) bytes_rate = find_of_products(bytes_per_second, lane, dtype);
  const double of_flops = is_grouped && flops_rate ? cost.flops / flops_rate->at(cost.rows)
                          : is_grouped
                              ? seconds(find_of_products(flops_per_second, lane, dtype), cost.flops)
                              : seconds(flops_rate, cost.flops);
  return launch_seconds + std::max(of_flops, seconds(bytes_rate, cost.bytes));
}

double Hardware::fetch_seconds(int64_t bytes) const {
  return cache_bytes > 0 ? static_cast<double>(bytes) / fetch_bytes_per_second : 0;
}

double Hardware::copy_seconds(Lane lane, int64_t bytes, OtherDirection other_direction) const {
  if (lane == Lane::compute) {
    const std::string memory = models::name(models::OpClass::memory);
    return launch_seconds +
           seconds(find(bytes_per_second, {memory, memory + ".bf16", memory + ".f32"}),
                   2.0 * static_cast<double>(bytes));
  }
  const RateCurve& link = lane == Lane::host_to_device ? link_to_device : link_to_host;
  double alone = static_cast<double>(bytes) / link.at(static_cast<double>(bytes));
  return launch_seconds + alone / (other_direction == OtherDirection::busy ? link_both_ways : 1);
}

double Hardware::collective_seconds(const models::Op& op, const std::any& attrs,
                                    const models::Type& in) const {
  const auto& among = std::any_cast<const Collective&>(attrs);
  const double bytes = models::wire_bytes(op, attrs, in);
  if (bytes == 0) return launch_seconds;
  const double nodes = static_cast<double>(among.nodes),
               per_node = static_cast<double>(among.ranks) / nodes;
  const double links = ici_links.points().empty() ? 1 : ici_links.at(per_node);
  const double within_node = links * ici.at(bytes / links);
  if (among.nodes == 1) return launch_seconds + bytes / within_node;
  const double doublings = std::log2(nodes);
  const double between =
      dcn.at(bytes) * per_node * std::pow(1 - dcn_contention, std::max(0., doublings - 1));
  const double rate = std::min(within_node, between);
  // As NCCL's model of itself has it (ncclTopoTuneModel() in src/graph/tuning.cc).
  const bool is_all_reduce = &op == &models::all_reduce_op;
  const double passes = is_all_reduce ? 2 : 1;
  const double ring = bytes / rate + passes * ((nodes - 1) * dcn_hop_seconds +
                                               nodes * (per_node - 1) * ici_hop_seconds);
  if (!is_all_reduce) return launch_seconds + ring;
  constexpr double kOfTree = 0.92;  // of the ring's rate
  const double tree =
      passes * static_cast<double>(in.bytes()) / (kOfTree * rate) +
      passes * (std::ceil(doublings) * dcn_hop_seconds + (per_node - 1) * ici_hop_seconds);
  return launch_seconds + std::min(ring, tree);
}

Hardware Hardware::shared_by(int64_t devices) const {
  const double sharers = static_cast<double>(std::min<int64_t>(devices, gpus_per_link));
  const double most = host_bandwidth > 0 ? host_bandwidth / static_cast<double>(devices) : INFINITY;
  Hardware one = *this;
  for (RateCurve* link : {&one.link_to_device, &one.link_to_host}) {
    std::vector<RateCurve::Point> points = link->points();
    for (auto& [bytes, rate] : points) rate = std::min(rate / sharers, most);
    *link = RateCurve(std::move(points));
  }
  return one;
}

Hardware uniform_hardware(models::Target target, const Rates& rates) {
  Hardware hardware{.name = "uniform", .target = target, .launch_seconds = rates.launch_seconds};
  auto curve = [](double rate) { return rate > 0 ? RateCurve(rate) : RateCurve(); };
  for (models::OpClass op_class : models::kOpClasses) {
    std::string key = models::name(op_class);
    hardware.flops_per_second[key] = curve(rates.flops_per_second);
    hardware.bytes_per_second[key] = curve(rates.device_bytes_per_second);
    hardware.flops_per_second["host." + key] = curve(rates.host_flops_per_second);
    hardware.bytes_per_second["host." + key] = curve(rates.host_bytes_per_second);
  }
  hardware.link_to_device = hardware.link_to_host = curve(rates.link_bytes_per_second);
  if (rates.flops_per_second > 0)
    for (models::Dtype dtype : {models::Dtype::float32, models::Dtype::bfloat16})
      hardware.peak_flops_per_second[dtype] = rates.flops_per_second;
  return hardware;
}

Hardware nominal_hardware(models::Target target) {
  if (models::is_cuda(target))
    return uniform_hardware(target, {.flops_per_second = 5e14,
                                     .device_bytes_per_second = 3e12,
                                     .link_bytes_per_second = 5e10,
                                     .host_flops_per_second = 1e12,
                                     .host_bytes_per_second = 1e11,
                                     .launch_seconds = 5e-6});
  return uniform_hardware(target, {.flops_per_second = 4e11,
                                   .device_bytes_per_second = 3e10,
                                   .link_bytes_per_second = 1e10,
                                   .host_flops_per_second = 4e11,
                                   .host_bytes_per_second = 3e10,
                                   .launch_seconds = 2e-6});
}

}  // namespace longshore::offload
