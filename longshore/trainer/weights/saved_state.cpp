#include "longshore/trainer/weights/saved_state.h"

#include <algorithm>

namespace longshore::trainer {
namespace {

using models::Trainable;
using offload::Bucket;
using offload::Copy;
using offload::ParameterLayout;

bool trains(const ParameterLayout& layout, bool of_adapter) {
  return std::ranges::any_of(layout.buckets, [&](const Bucket& bucket) {
    return bucket.trainable == Trainable::yes &&
           std::ranges::any_of(bucket.parameters, [&](const offload::Parameter& parameter) {
             return parameter.weight.of_adapter == of_adapter;
           });
  });
}

// Parts of what is split follow each other, in each its shards along fsdp, and in a shard the parts
// that replicas update.
std::vector<int64_t> holders(const offload::DeviceMesh& mesh, const Bucket& bucket, Copy copy) {
  const int64_t parts = bucket.split ? mesh.along(*bucket.split).size : 1,
                replicas = bucket.held.count / bucket.part(copy).count;
  std::vector<int64_t> ranks;
  for (int64_t part = 0; part < parts; ++part)
    for (int64_t shard = 0; shard < mesh.fsdp.size; ++shard)
      for (int64_t replica = 0; replica < replicas; ++replica)
        ranks.push_back((part + replica) * mesh.fsdp.size + shard);  // DeviceMesh::rank
  return ranks;
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
                      holders(layout.mesh, bucket, copy)});
  return list;
}

std::vector<SavedArgument> given_arguments(const ParameterLayout& layout) {
  std::vector<SavedArgument> list = saved_arguments(layout);
  std::erase_if(list, [&](const SavedArgument& one) {
    return std::ranges::find(one.holders, layout.mesh.rank()) == one.holders.end();
  });
  return list;
}

}  // namespace longshore::trainer
