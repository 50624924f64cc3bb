// Random models: stages that feed each other at random, of layers that nobody would train but that
// the language of programs allows. Values are read several times or not at all, weights are frozen,
// shared by nodes or tied across stages, labels and losses are anywhere, a layer may pass on what
// it was given, give values to later layers or exchange them with other devices, among which
// weights may be split. Whatever the passes take for granted about models goes wrong with some of
// them.
#pragma once

#include <cstdint>
#include <optional>

#include "longshore/models/ir/collectives.h"
#include "longshore/models/ir/model.h"

namespace longshore::offload {

struct RandomModelSizes {
  int64_t batch = 2, length = 5, width = 16, mlp_width = 24;
  int64_t head_dim = 8;
  int64_t vocabulary = 29;
  models::Dtype dtype = models::Dtype::float32;
  std::optional<models::Collective> among = {};  // devices that exchange values, two at most
};

inline constexpr double kRandomNormEpsilon = 1e-3, kRandomScale = 0.5, kRandomCap = 5,
                        kRandomPenalty = 1e-3;

// Connected. A stage `embed` reads batch input `tokens`, a scan is called `decoder`, and some
// stage makes a loss of batch input `targets`. Something is trained.
models::Model random_model(uint32_t seed, const RandomModelSizes& sizes = {});

}  // namespace longshore::offload
