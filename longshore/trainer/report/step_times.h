// Where time goes: the steps of runs with what made some of them slow, and one step by phase and
// op.
#pragma once

#include <string>
#include <vector>

#include "longshore/trainer/report/line_chart.h"
#include "longshore/trainer/report/run_records.h"
#include "longshore/trainer/report/step_picture.h"

namespace longshore::trainer {

// The seconds of each step, and what lies between steps. Of one run the slowest steps and the
// longest pauses are marked, with what is known of their cause: a save, an evaluation, data that
// was late.
LineChart step_times(const std::vector<const RunRecords*>& runs);

// Bars of a step: kernels by phase, and how long the device waited.
std::string phases_html(const StepPicture& step);
// Its ops, the longest first, by phase.
std::string ops_html(const StepPicture& step);

}  // namespace longshore::trainer
