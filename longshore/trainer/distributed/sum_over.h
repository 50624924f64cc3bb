// sum_over() adds up what devices measure, on their hosts.
#pragma once

#include <functional>
#include <span>

#include "longshore/trainer/distributed/world.h"

namespace longshore::trainer {

// Replaces values by their sums over all processes, in the order of their ranks, which all of them
// get. All call it, as often.
std::function<void(std::span<double>)> sum_over(World& world);

}  // namespace longshore::trainer
