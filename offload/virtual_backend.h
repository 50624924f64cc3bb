// A device that computes nothing and has no memory, but a clock for each lane: plans for any target
// are walked on it by the same executor that trains, so that what it counts is what training will
// take.
#pragma once

#include <limits>
#include <memory>

#include "offload/backend.h"

namespace longshore::offload {

// A kernel takes its launch and the longer of its work and its memory traffic; a copy takes its
// launch and its bytes on the link.
struct Rates {
  double flops_per_second = std::numeric_limits<double>::infinity();
  double device_bytes_per_second = std::numeric_limits<double>::infinity();
  double link_bytes_per_second = std::numeric_limits<double>::infinity();  // each way
  double host_flops_per_second = std::numeric_limits<double>::infinity();
  double host_bytes_per_second = std::numeric_limits<double>::infinity();
  double launch_seconds = 0;
};

// Of a device of that kind, in round numbers: a data centre's GPU on PCIe 5, a desktop processor's
// cores. For choices that only depend on proportions.
Rates nominal_rates(models::Target target);

std::unique_ptr<Backend> make_virtual_backend(models::Target target, const Rates& rates = {});

}  // namespace longshore::offload
