#include "longshore/offload/backends/timeline.h"

#include <algorithm>
#include <array>

#include "longshore/base/error.h"

namespace longshore::offload {
namespace {

// The union of spans, as disjoint spans in ascending order.
std::vector<Span> joined(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::vector<Span> result;
  for (const Span& span : spans)
    if (!result.empty() && span.begin <= result.back().end)
      result.back().end = std::max(result.back().end, span.end);
    else
      result.push_back(span);
  return result;
}

double length(const std::vector<Span>& spans) {
  double seconds = 0;
  for (const Span& span : spans) seconds += span.end - span.begin;
  return seconds;
}

// The length of the intersection of two lists of disjoint, ascending spans.
double common_length(const std::vector<Span>& a, const std::vector<Span>& b) {
  double seconds = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    seconds += std::max(0.0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    a[i].end < b[j].end ? ++i : ++j;
  }
  return seconds;
}

}  // namespace

const char* name(Phase phase) {
  static constexpr std::array kNames{"forward", "backward", "optimizer"};
  return kNames[static_cast<size_t>(phase)];
}

std::vector<Event> timeline(const std::vector<const Plan*>& plans, const LaneSpans& spans) {
  PerLane<size_t> next{};
  std::vector<Event> events;
  for (const Plan* plan : plans)
    for (const Instruction& instruction : plan->instructions) {
      const Lane lane = instruction.lane;
      if (next[lane] >= spans[lane].size())
        throw InternalError(plan->name + ": fewer calls were recorded on " + name(lane) +
                            " than the plan has");
      events.push_back({.lane = lane,
                        .name = instruction.name,
                        .op = instruction.op ? instruction.op->name : "move",
                        .scope = instruction.scope,
                        .recomputes = instruction.recomputes,
                        .bytes = instruction.op ? 0 : instruction.in[0].type.bytes(),
                        .span = spans[lane][next[lane]++]});
    }
  for (Lane lane : kLanes)
    if (next[lane] != spans[lane].size())
      throw InternalError(std::string("more calls were recorded on ") + name(lane) +
                          " than the plans have");
  return events;
}

Overlap overlap(const std::vector<Event>& events) {
  std::vector<Span> kernels, copies, all;
  for (const Event& event : events) {
    all.push_back(event.span);
    if (event.lane == Lane::compute) kernels.push_back(event.span);
    if (event.lane == Lane::host_to_device || event.lane == Lane::device_to_host)
      copies.push_back(event.span);
  }
  kernels = joined(std::move(kernels));
  copies = joined(std::move(copies));
  all = joined(std::move(all));
  return {.copying = length(copies),
          .computing = length(kernels),
          .hidden = common_length(kernels, copies),
          .total = all.empty() ? 0 : all.back().end - all.front().begin};
}

}  // namespace longshore::offload
