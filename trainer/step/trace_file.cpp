#include "trainer/step/trace_file.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/atomic_file.h"

namespace longshore::trainer {

using nlohmann::ordered_json;

namespace {

constexpr int kProcess = 0;

const char* name(offload::Phase phase) {
  switch (phase) {
    case offload::Phase::forward:
      return "forward";
    case offload::Phase::backward:
      return "backward";
    case offload::Phase::optimizer:
      return "optimizer";
  }
  return "";
}

std::string categories(const offload::Event& event) {
  return std::string(name(event.place.phase)) + (event.recomputes ? ",recompute" : "");
}

// Microseconds to the nanosecond, which is as exact as backends' clocks are.
double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

}  // namespace

void write_trace(const std::vector<RecordedStep>& steps, const std::filesystem::path& path) {
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
    for (const offload::Event& event : step.events) {
      ordered_json arguments{{"step", step.step},
                             {"op", event.op},
                             {"stage", event.place.stage},
                             {"layer", event.place.layer}};
      if (event.bytes > 0) arguments["bytes"] = event.bytes;
      events.push_back({{"name", event.name},
                        {"cat", categories(event)},
                        {"ph", "X"},
                        {"pid", kProcess},
                        {"tid", static_cast<int>(event.lane)},
                        {"ts", microseconds(step.begin + event.span.begin)},
                        {"dur", microseconds(event.span.end - event.span.begin)},
                        {"args", arguments}});
    }
  write_file(path, ordered_json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() + "\n");
}

}  // namespace longshore::trainer
