#include "trainer/step/trace_file.h"

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"

namespace longshore::trainer {

using nlohmann::ordered_json;

namespace {

constexpr int kProcess = 0;
constexpr double kMicroseconds = 1e6;

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

}  // namespace

void write_trace(const std::vector<RecordedStep>& steps, const std::filesystem::path& path) {
  ordered_json events = ordered_json::array();
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
                        {"cat", name(event.place.phase)},
                        {"ph", "X"},
                        {"pid", kProcess},
                        {"tid", static_cast<int>(event.lane)},
                        {"ts", (step.begin + event.span.begin) * kMicroseconds},
                        {"dur", (event.span.end - event.span.begin) * kMicroseconds},
                        {"args", arguments}});
    }
  write_file(path, ordered_json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() + "\n");
}

}  // namespace longshore::trainer
