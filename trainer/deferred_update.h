// An update that has to wait for the norm of all gradients, put where it can hide: into the next
// forward pass. There each slab is updated, chunk by chunk, while the layer before the one that
// reads it computes, and what the update moves to and from host memory moves behind that layer.
#pragma once

#include <map>
#include <vector>

#include "models/model.h"
#include "trainer/optimizer.h"

namespace longshore::trainer {

class DeferredUpdate {
 public:
  // `ahead` is how many layers ahead of its reader a slab is updated, at least 1.
  DeferredUpdate(const models::Model& model, const offload::ParameterLayout& layout, int ahead,
                 Update& update);

  // What PassOptions calls in the forward pass.
  void forward_reached(int stage, int layer, double done);

 private:
  Update& update_;
  int ahead_;
  std::map<std::pair<int, int>, int> position_;  // by stage and layer, in the order they run
  std::vector<int> due_;                         // chunks that must be updated before each runs
  int updated_ = 0;
};

}  // namespace longshore::trainer
