#include "longshore/offload/lowering/explain.h"

#include <algorithm>
#include <cstdio>

namespace longshore::offload {
namespace {

using models::Node;
using models::Program;
using models::Value;
using models::ValueId;

std::string what_happens(const Partition& partition, ValueId id) {
  for (const Residual& residual : partition.residuals)
    if (residual.value == id)
      return residual.action == Action::offload ? "goes to pinned_host" : "stays on the device";
  return std::ranges::count(partition.recomputed, id) > 0 ? "computed again" : "not read again";
}

}  // namespace

std::string title(const LayerPlan& layers) {
  std::string title = "stage " + layers.stage;
  if (!layers.is_scan) return title;
  const std::string first = std::to_string(layers.first), last = std::to_string(layers.last);
  if (layers.count == 1) return title + ", layer " + first;
  // Where kinds of layers alternate, layers of other kinds lie in between.
  const bool is_every = layers.count == layers.last - layers.first + 1;
  return title + (is_every ? ", layers " : ", " + std::to_string(layers.count) + " layers from ") +
         first + " to " + last;
}

std::string explain(const LayerPlan& layers) {
  const Partition& partition = *layers.partition;
  const Program &forward = partition.forward, &backward = partition.backward;
  std::string result = title(layers) + ": keeps " +
                       bytes_text(residual_bytes(partition, Action::keep)) + " a layer, offloads " +
                       bytes_text(residual_bytes(partition, Action::offload)) + "\n";
  for (size_t i = 0; i < forward.values.size(); ++i) {
    const Value& value = forward.values[i];
    if (value.label.empty()) continue;
    char line[160];
    std::snprintf(line, sizeof line, "  %-20s %14s  %s\n", value.label.c_str(),
                  bytes_text(value.type.bytes()).c_str(),
                  what_happens(partition, {static_cast<int32_t>(i)}).c_str());
    result += line;
  }
  std::string recomputed;
  for (const Node& node : backward.nodes)
    if (node.recomputes) recomputed += "    " + text(backward, node) + "\n";
  return result + (recomputed.empty() ? "  nothing is computed again\n"
                                      : "  computed again:\n" + recomputed);
}

}  // namespace longshore::offload
