#include "trainer/weights/saved_state.h"

#include <algorithm>

#include "models/families/lora_config.h"

namespace longshore::trainer {
namespace {

using models::Trainable;
using offload::Copy;
using offload::ParameterLayout;
using offload::Slab;

bool trains(const ParameterLayout& layout, bool lora) {
  return std::ranges::any_of(layout.slabs, [&](const Slab& slab) {
    return slab.trainable == Trainable::yes &&
           std::ranges::any_of(slab.parameters, [&](const offload::Parameter& parameter) {
             return models::is_lora_weight(parameter.name) == lora;
           });
  });
}

}  // namespace

bool saves_adapter(const ParameterLayout& layout) { return trains(layout, true); }
bool saves_model(const ParameterLayout& layout) { return trains(layout, false); }

Copy weights_copy(const Slab& slab) {
  return slab.has(Copy::master) ? Copy::master : Copy::compute;
}

std::vector<Copy> saved_copies(const ParameterLayout& layout, const Slab& slab) {
  if (slab.trainable == Trainable::no)
    return saves_model(layout) ? std::vector{Copy::compute} : std::vector<Copy>{};
  std::vector<Copy> copies{weights_copy(slab)};
  for (size_t i = 0; i < slab.states.size(); ++i) copies.push_back(offload::state_copy(i));
  return copies;
}

std::vector<SavedArgument> saved_arguments(const ParameterLayout& layout) {
  std::vector<SavedArgument> list;
  for (const Slab& slab : layout.slabs)
    for (Copy copy : saved_copies(layout, slab))
      list.push_back({argument_name(slab, copy), category(copy), bytes(slab, copy),
                      slab.held.count / slab.part(copy).count});
  return list;
}

std::vector<SavedArgument> given_arguments(const ParameterLayout& layout) {
  std::vector<SavedArgument> list = saved_arguments(layout);
  if (layout.mesh.data.rank > 0)
    std::erase_if(list, [](const SavedArgument& one) { return one.replicas == 1; });
  return list;
}

}  // namespace longshore::trainer
