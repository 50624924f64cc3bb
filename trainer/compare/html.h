// A comparison as a page for any browser: one file, nothing loaded from anywhere.
#pragma once

#include <string>

#include "trainer/compare/report.h"

namespace longshore::trainer {

// Gain and headroom by workload; for each workload step times with their spread and predictions,
// memory by kind and category, all figures, what was not measured and why, and the config.
std::string html(const ComparisonReport& report);

}  // namespace longshore::trainer
