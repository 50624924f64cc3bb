// What AdamW keeps, for layouts of steps that it updates.
#pragma once

#include <vector>

#include "models/ops/update/adamw.h"
#include "trainer/step/optimizer.h"

namespace longshore::offload {

inline constexpr Copy kFirstMoment = state_copy(0), kSecondMoment = state_copy(1),
                      kSecondScale = state_copy(3);

// `moments` is float32, bfloat16, or uint8 for those of 8 bits.
inline std::vector<OptimizerStates> adamw_states(models::Dtype moments = models::Dtype::float32) {
  const models::StateFormat format = moments == models::Dtype::uint8 ? models::StateFormat::block8
                                     : moments == models::Dtype::bfloat16
                                         ? models::StateFormat::bfloat16
                                         : models::StateFormat::float32;
  return {{.states = trainer::states_of(models::adamw({}), format)}};
}

}  // namespace longshore::offload
