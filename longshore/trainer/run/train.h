// train() does a training run, from config to summary.
#pragma once

#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

void train(const Config& config);

}  // namespace longshore::trainer
