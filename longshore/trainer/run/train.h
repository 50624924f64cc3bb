// train() does a training run, from config to summary.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "longshore/trainer/config/config.h"
#include "longshore/trainer/run/console.h"

namespace longshore::trainer {

// Who looks on while a run goes on; of several processes the first.
struct Onlooker {
  // The run's folder is there. Gives a line for the console, or "".
  std::function<std::string(const std::filesystem::path& folder)> begin;
};

// Answers a ReportSignal, where one lives, after the step at hand.
void train(const Config& config, Verbosity verbosity = Verbosity::usual,
           const Onlooker& onlooker = {});

}  // namespace longshore::trainer
