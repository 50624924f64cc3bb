#include "longshore/trainer/step/trace_file.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "longshore/base/atomic_file.h"
#include "longshore/trainer/step/memory_samples.h"

namespace longshore::trainer {

using nlohmann::ordered_json;

namespace {

constexpr int kProcess = 0;

std::string categories(const offload::Event& event) {
  return std::string(offload::name(event.scope.phase)) + (event.recomputes ? ",recompute" : "");
}

// Microseconds to the nanosecond, which is as exact as backends' clocks are.
double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

ordered_json event_json(const RecordedStep& step, const offload::Event& event) {
  ordered_json arguments{{"step", step.step},
                         {"op", event.op},
                         {"stage", event.scope.stage},
                         {"layer", event.scope.layer}};
  if (event.bytes > 0) arguments["bytes"] = event.bytes;
  return {{"name", event.name},
          {"cat", categories(event)},
          {"ph", "X"},
          {"pid", kProcess},
          {"tid", static_cast<int>(event.lane)},
          {"ts", microseconds(step.begin + event.span.begin)},
          {"dur", microseconds(event.span.end - event.span.begin)},
          {"args", arguments}};
}

ordered_json counter_json(offload::MemoryKind kind, double seconds,
                          const offload::Ledger::ByCategory& live) {
  ordered_json bytes;
  for (offload::Category category : offload::kCategories)
    bytes[offload::name(category)] = live[category];
  return {{"name", std::string(offload::name(kind)) + " bytes"},
          {"ph", "C"},
          {"pid", kProcess},
          {"ts", microseconds(seconds)},
          {"args", bytes}};
}

// Appends the memory of a kind in each step, where it changes.
void append_counters(const std::vector<RecordedStep>& steps, const StepPlans& plans,
                     offload::MemoryKind kind, ordered_json& events) {
  offload::Ledger::ByCategory shown{};
  for (const RecordedStep& step : steps)
    for (const MemorySample& sample : memory_samples(step.events, plans, kind)) {
      if (sample.live == shown) continue;
      events.push_back(counter_json(kind, step.begin + sample.at, sample.live));
      shown = sample.live;
    }
}

}  // namespace

void write_trace(const std::vector<RecordedStep>& steps, const StepPlans& plans,
                 const std::filesystem::path& path, Links links) {
  ordered_json events = ordered_json::array();
  events.push_back({{"name", "process_name"},
                    {"ph", "M"},
                    {"pid", kProcess},
                    {"args", {{"name", "longshore"}}}});
  for (offload::Lane lane : offload::kLanes)
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", kProcess},
                      {"tid", static_cast<int>(lane)},
                      {"args", {{"name", offload::name(lane)}}}});
  for (const RecordedStep& step : steps)
    for (const offload::Event& event : step.events) events.push_back(event_json(step, event));
  for (offload::MemoryKind kind : offload::kMemoryKinds)
    append_counters(steps, plans, kind, events);
  write_file(path, ordered_json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() + "\n",
             links);
}

}  // namespace longshore::trainer
