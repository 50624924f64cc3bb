// The names of what a run's folder holds.
#pragma once

namespace longshore::trainer {

inline constexpr const char* kConfigFile = "config.yml";  // with all keys
inline constexpr const char* kPlanFile = "plan.txt";
inline constexpr const char* kPlanRecordFile = "plan.json";  // for pages
inline constexpr const char* kAdviceFile = "advice.txt";     // of the plan, where it has a profile
inline constexpr const char* kReportFile = "report.html";
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kSummaryFile = "summary.json";  // of a run that has ended
inline constexpr const char* kTraceFile = "trace.json";
inline constexpr const char* kReferenceFile = "reference.safetensors";  // where it is precomputed
inline constexpr const char* kSamplesFolder = "samples";  // a file for each evaluation
inline constexpr const char* kLockFile = "lock";          // held by the process that trains there
inline constexpr const char* kCheckpointsFolder = "checkpoints";  // each is named by its step

// Of a checkpoint; in the run's folder links to those of the newest one.
inline constexpr const char* kModelFolder = "model";
inline constexpr const char* kAdapterFolder = "adapter";

// Of the run's folder, a link to the checkpoint that keep_best keeps.
inline constexpr const char* kBestLink = "best";

}  // namespace longshore::trainer
