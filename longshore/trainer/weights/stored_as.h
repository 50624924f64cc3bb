// stored_as() has a model read weights as a layout has them stored.
#pragma once

#include "longshore/models/ir/model.h"
#include "longshore/offload/lowering/parameter_layout.h"

namespace longshore::trainer {

// The model with those of its matrices quantized that are so in the layout of another model with
// the same weights. Where there are any, it trains nothing.
models::Model stored_as(const offload::ParameterLayout& layout, models::Model model);

}  // namespace longshore::trainer
