// Comparisons as a terminal and other programs read them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/compare/compare.h"

namespace longshore::trainer {

// What was measured, and how.
struct ComparisonReport {
  std::vector<Comparison> comparisons;
  int64_t steps = 0;  // timed ones of each policy
  std::optional<double> price_per_device_hour;
};

// The first row is the head; all rows are as long.
using Table = std::vector<std::vector<std::string>>;

// Columns in line, the first to the left and the others to the right.
std::string text(const Table& table);

// A row for each policy that was measured: times, rates, memory, gain. Columns that nothing is
// known for are left out.
Table figures_table(const Comparison& comparison, std::optional<double> price_per_device_hour);
// A row for each workload: every policy's gain over the baseline and the device memory it saves.
Table gains_table(const ComparisonReport& report);

// "policy: why it was not measured", or not to the end, for each that was not.
std::vector<std::string> obstacles(const Comparison& comparison);
// Where measured peaks are not the planned ones, or that they are.
std::vector<std::string> memory_notes(const Comparison& comparison);

// "+5.1 %", "-1.21 GiB"
std::string percent_text(double part);
std::string signed_bytes_text(int64_t bytes);

std::string text(const ComparisonReport& report);

// {"steps", "losses_equal", "workloads": [...], "plans": [{"workload", ..., "measured"}]}: plans as
// plan's json(), for all workloads one after the other; "fits" is what this machine says, and
// "measured" is null where it says no.
nlohmann::ordered_json json(const ComparisonReport& report);

}  // namespace longshore::trainer
