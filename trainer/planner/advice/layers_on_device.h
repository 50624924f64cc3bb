// with_layers_on_device() answers parameter_layers_on_device: auto.
#pragma once

#include "trainer/config/run_spec.h"

namespace longshore::trainer {

// The run with the most layers whose parameters can stay on the device of the profile while those
// of the others live in host memory. Each layer that stays is one less to be fetched. The run
// itself where their number is given; none stay where nothing fits.
RunSpec with_layers_on_device(const RunSpec& spec);

}  // namespace longshore::trainer
