// Updates spread over the layers that compute meanwhile, so that what they move to and from host
// memory hides behind these.
#pragma once

#include <map>
#include <vector>

#include "models/model.h"
#include "trainer/step/optimizer.h"

namespace longshore::trainer {

// Of an update that had to wait for the norm of all gradients and is deferred into the next forward
// pass: there each slab is updated while the layer before the one that reads it computes.
class ForwardUpdate {
 public:
  // `ahead` is how many layers ahead of its reader a slab is updated, at least 1.
  ForwardUpdate(const models::Model& model, const offload::ParameterLayout& layout, int ahead,
                Update& update);

  // See PassOptions.
  void forward_reached(int stage, int layer, double done);

 private:
  Update& update_;
  int ahead_;
  std::map<std::pair<int, int>, int> position_;  // by stage and layer, in the order they run
  std::vector<int> due_;                         // chunks that must be updated before each runs
  int updated_ = 0;
};

// Without clipping no update has to wait for the norm: each slab is updated during the backward
// pass of the layer that follows the one which made its gradients final.
class BackwardUpdate {
 public:
  explicit BackwardUpdate(Update& update) : update_(update) {}

  // See PassOptions.
  void gradients_made(int slab);
  void backward_reached(double done);

  // After the pass.
  void finish() { update_.finish(); }

 private:
  Update& update_;
  int chunks_ = 0, updated_ = 0;  // of the slabs at hand
};

}  // namespace longshore::trainer
