// The report of comparisons as text for terminals and as JSON for other programs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "longshore/trainer/programs/compare/compare.h"
#include "longshore/trainer/report/text_table.h"

namespace longshore::trainer {

// The comparisons, and how they were measured.
struct ComparisonReport {
  std::vector<Comparison> comparisons;
  int64_t steps = 0;  // the number of timed steps of each policy
  std::optional<double> price_per_device_hour;
};

// A row for each policy that was measured, with times, rates, memory and gain. Columns without any
// value are left out.
Table figures_table(const Comparison& comparison, std::optional<double> price_per_device_hour);
// A row for each workload, with the gain of each policy over the baseline and the memory that it
// saves.
Table gains_table(const ComparisonReport& report);

// "policy: why it was not measured" for each policy that was not measured, or not to the end.
std::vector<std::string> obstacles(const Comparison& comparison);
// "auto chose: full, optimizer on the host", if `auto` is one of the policies.
std::vector<std::string> choices(const Comparison& comparison);
// The measured peaks that differ from the planned ones, or a line that none does; and how evenly
// tokens went to experts.
std::vector<std::string> notes(const Comparison& comparison);

// "+5.1 %", "-1.21 GiB"
std::string percent_text(double part);
std::string signed_bytes_text(int64_t bytes);

std::string text(const ComparisonReport& report);

// {"steps", "losses_equal", "differences", "workloads": [...], "plans": [{"workload", ...,
// "measured"}]}. The plans of all workloads are in one list, each as json() in plan_report.h writes
// it. "fits" says whether the plan fits this machine; "measured" is null if it does not.
nlohmann::ordered_json json(const ComparisonReport& report);

}  // namespace longshore::trainer
