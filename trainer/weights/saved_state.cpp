#include "trainer/weights/saved_state.h"

#include <algorithm>

#include "models/families/lora_config.h"

namespace longshore::trainer {
namespace {

using models::Trainable;
using offload::Bucket;
using offload::Copy;
using offload::ParameterLayout;

bool trains(const ParameterLayout& layout, bool lora) {
  return std::ranges::any_of(layout.buckets, [&](const Bucket& bucket) {
    return bucket.trainable == Trainable::yes &&
           std::ranges::any_of(bucket.parameters, [&](const offload::Parameter& parameter) {
             return models::is_lora_weight(parameter.name) == lora;
           });
  });
}

}  // namespace

bool saves_adapter(const ParameterLayout& layout) { return trains(layout, true); }
bool saves_model(const ParameterLayout& layout) { return trains(layout, false); }

Copy weights_copy(const Bucket& bucket) {
  return bucket.has(Copy::master) ? Copy::master : Copy::compute;
}

std::vector<Copy> saved_copies(const ParameterLayout& layout, const Bucket& bucket) {
  if (bucket.trainable == Trainable::no)
    return saves_model(layout) ? std::vector{Copy::compute} : std::vector<Copy>{};
  std::vector<Copy> copies{weights_copy(bucket)};
  for (size_t i = 0; i < bucket.states.size(); ++i) copies.push_back(offload::state_copy(i));
  return copies;
}

std::vector<SavedArgument> saved_arguments(const ParameterLayout& layout) {
  std::vector<SavedArgument> list;
  for (const Bucket& bucket : layout.buckets)
    for (Copy copy : saved_copies(layout, bucket))
      list.push_back({argument_name(bucket, copy), category(copy), bytes(bucket, copy),
                      bucket.held.count / bucket.part(copy).count});
  return list;
}

std::vector<SavedArgument> given_arguments(const ParameterLayout& layout) {
  std::vector<SavedArgument> list = saved_arguments(layout);
  if (layout.mesh.data.rank > 0)
    std::erase_if(list, [](const SavedArgument& one) { return one.replicas == 1; });
  return list;
}

}  // namespace longshore::trainer
