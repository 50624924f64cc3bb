// The report of a comparison as an HTML page, in one file that loads nothing from elsewhere.
#pragma once

#include <string>

#include "longshore/trainer/programs/compare/report.h"

namespace longshore::trainer {

// The page shows the saved time and memory by workload. For each workload it shows step times with
// their spread and predictions, memory by kind and category, all figures, why policies were not
// measured, and the config.
std::string html(const ComparisonReport& report);

}  // namespace longshore::trainer
