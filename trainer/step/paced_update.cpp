#include "trainer/step/paced_update.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace longshore::trainer {
namespace {

int share(double done, int chunks) { return static_cast<int>(std::lround(done * chunks)); }

}  // namespace

ForwardUpdate::ForwardUpdate(const models::Model& model, const offload::ParameterLayout& layout,
                             int ahead, Update& update)
    : update_(update), ahead_(ahead) {
  std::set<int> seen;
  int chunks = 0;
  for (int stage = 0; stage < std::ssize(model.stages); ++stage) {
    const models::Stage& s = model.stages[stage];
    for (int layer = 0; layer < std::ssize(s.layers); ++layer) {
      const models::Program& program = s.programs[s.layers[layer]];
      for (models::ValueId id : program.inputs_from(models::Source::weight)) {
        int slab = layout.by_name.at(weight_name(s, layer, program[id])).slab;
        bool trains = layout.slabs[slab].trainable == models::Trainable::yes;
        if (trains && seen.insert(slab).second) chunks += update.add(slab);
      }
      position_[{stage, layer}] = static_cast<int>(due_.size());
      due_.push_back(chunks);
    }
  }
}

void ForwardUpdate::forward_reached(int stage, int layer, double done) {
  auto due = [&](int position) { return due_[std::min<size_t>(position, due_.size() - 1)]; };
  int position = position_.at({stage, layer}) + ahead_;
  int now = due(position - 1);
  int target = now + share(done, due(position) - now);
  update_.run(std::max(0, target - updated_));
  updated_ = std::max(updated_, target);
}

void BackwardUpdate::gradients_made(int slab) {
  // Several slabs may become final behind the same layer.
  if (updated_ > 0) {
    update_.finish();
    chunks_ = updated_ = 0;
  }
  chunks_ += update_.add(slab);
}

void BackwardUpdate::backward_reached(double done) {
  int target = share(done, chunks_);
  update_.run(std::max(0, target - updated_));
  updated_ = std::max(updated_, target);
}

}  // namespace longshore::trainer
