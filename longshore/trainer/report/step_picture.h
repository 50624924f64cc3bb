// A StepPicture is what the lanes of a step do when, and what memory holds meanwhile, in columns:
// it is small however long the step is. It is made of a plan that was timed on a profile, or of the
// trace of a step that ran; pages and SVG files are drawn from it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/offload/backends/timeline.h"
#include "longshore/trainer/step/memory_samples.h"

namespace longshore::trainer {

// What a lane works on. On the lanes that compute it is a phase, on those that move what is moved.
enum class WorkKind : uint8_t {
  forward,
  backward,
  recomputed,
  optimizer_step,
  weights,
  activations,
  gradients,
  states,  // of the optimizer
  other,   // batch and results
};
inline constexpr int kWorkKinds = 9;
const char* name(WorkKind kind);   // "optimizer states"
const char* style(WorkKind kind);  // its CSS class and variable

// A stretch of columns of a lane, each of which has the kind that takes most of it.
struct LaneBar {
  int begin = 0, end = 0;
  WorkKind kind = WorkKind::other;
};

struct LanePicture {
  std::string name;
  std::vector<LaneBar> bars;  // none where the lane is idle for most of the column
  std::array<double, kWorkKinds> seconds{};
  double busy_seconds() const;
};

int64_t total_bytes(const offload::Ledger::ByCategory& bytes);  // of all categories

// The bytes of each category in each column, at the moment at which all of them together have most.
struct MemoryPicture {
  std::vector<offload::Ledger::ByCategory> columns;
  int64_t most_bytes() const;
};

// The time of an op's kernels in a phase.
struct OpTime {
  std::string op;
  WorkKind kind = WorkKind::other;
  double seconds = 0;
};

struct StepPicture {
  static constexpr int kColumns = 3000, kMemoryColumns = 750;

  double seconds = 0;
  std::vector<LanePicture> lanes;  // those that do something
  MemoryPicture device;            // nothing where it is not known
  std::vector<OpTime> ops;         // of the compute lane, the longest first
  // Which steps the trace has that it is made of; none of a plan.
  int64_t first_step = 0, last_step = -1;
  bool recorded(int64_t step) const { return first_step <= step && step <= last_step; }
};

// Of one step; its times are since the step began.
StepPicture step_picture(const std::vector<offload::Event>& events,
                         const std::vector<MemorySample>& device);

// Of the last whole step in a trace.json. Throws DataError, without the file's name, on what is
// none.
StepPicture read_trace(std::string_view text);

MemoryPicture memory_picture(const std::vector<MemorySample>& samples, double end);

nlohmann::ordered_json json(const StepPicture& picture);
nlohmann::ordered_json json(const MemoryPicture& picture);
// Throw nlohmann's exceptions or DataError on what these two have not written.
StepPicture read_step_picture(const nlohmann::ordered_json& json);
MemoryPicture read_memory_picture(const nlohmann::ordered_json& json);

}  // namespace longshore::trainer
