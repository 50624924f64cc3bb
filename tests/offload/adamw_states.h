// states_of() gives what optimizers keep, and adamw_states() what AdamW keeps, for layouts of steps
// that they update.
#pragma once

#include <vector>

#include "longshore/models/ops/update/adamw.h"
#include "longshore/trainer/step/optimizer.h"

namespace longshore::offload {

inline constexpr Copy kFirstMoment = state_copy(0), kSecondMoment = state_copy(1),
                      kSecondScale = state_copy(3);

// `dtype` is float32, bfloat16, or uint8 for states of 8 bits.
inline std::vector<OptimizerStates> states_of(const models::Optimizer& optimizer,
                                              models::Dtype dtype) {
  const models::StateFormat format = dtype == models::Dtype::uint8 ? models::StateFormat::block8
                                     : dtype == models::Dtype::bfloat16
                                         ? models::StateFormat::bfloat16
                                         : models::StateFormat::float32;
  return {{.states = trainer::states_of(optimizer, format)}};
}

inline std::vector<OptimizerStates> adamw_states(models::Dtype moments = models::Dtype::float32) {
  return states_of(models::adamw({}), moments);
}

}  // namespace longshore::offload
