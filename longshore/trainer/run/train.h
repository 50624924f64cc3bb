// train() does a training run, from config to summary.
#pragma once

#include "longshore/trainer/config/config.h"
#include "longshore/trainer/run/console.h"

namespace longshore::trainer {

// Answers a ReportSignal, where one lives, after the step at hand.
void train(const Config& config, Verbosity verbosity = Verbosity::usual);

}  // namespace longshore::trainer
