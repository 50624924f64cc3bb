// with_layers_on_device() answers parameter_layers_on_device: auto.
#pragma once

#include "longshore/trainer/config/run_spec.h"

namespace longshore::trainer {

// The run with as much of its parameters on the device of the profile as fits: all of them, or the
// most layers, while those of the others live in host memory. Each layer that stays is one less to
// be fetched. The run itself where the number is given; no layer stays where nothing fits.
RunSpec with_layers_on_device(const RunSpec& spec);

// "parameter_layers_on_device auto: 37 of 80", of a run whose number was chosen; "" of another.
std::string layers_text(const RunSpec& spec);

}  // namespace longshore::trainer
