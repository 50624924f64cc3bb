#include "longshore/offload/lowering/pass_operands.h"

#include "longshore/base/error.h"

namespace longshore::offload {

using models::Source;
using models::Type;
using models::Value;

std::string host_name(const std::string& name) { return name + ".host"; }

Operand PassOperands::home(int bucket, Copy copy, int64_t offset, const Type& type) {
  const Bucket& s = layout_.buckets[bucket];
  std::string name = argument_name(s, copy);
  MemoryKind kind = s.homes.of(copy);
  int64_t offset_bytes =
      (offset - elements(s, copy, s.part(copy).first)) * models::size_bytes(dtype(s, copy));
  if (copy == Copy::gradient && gradients_ != GradientOwner::caller) {
    auto [entry, is_new] = gradient_buffers_.try_emplace(bucket, -1);
    // A shard that only fills its bucket up is never read.
    const bool is_persistent = gradients_ != GradientOwner::plan && !s.decay_ranges().empty();
    if (is_new)
      entry->second =
          is_persistent
              ? builder_.persistent(name, bytes(s, copy), kind, Category::gradients, before_)
              : builder_.temporary(name, bytes(s, copy), kind, Category::gradients);
    return {entry->second, offset_bytes, type};
  }
  return {builder_.argument(name, bytes(s, copy), kind, category(copy)), offset_bytes, type};
}

Operand PassOperands::range(int bucket, Copy copy, int64_t offset, const Type& type) {
  Operand at_home = home(bucket, copy, offset, type);
  if (layout_.buckets[bucket].homes.of(copy) == MemoryKind::device) return at_home;
  Operand& staged = staged_[{bucket, copy, offset, type.shape.count()}];
  if (!staged)
    staged = builder_.staged(
        at_home, argument_name(layout_.buckets[bucket], copy) + "[" + std::to_string(offset) + "]");
  return {staged.buffer, staged.offset, type};
}

Operand PassOperands::host_range(int bucket, Copy copy, int64_t offset, const Type& type) {
  if (layout_.buckets[bucket].homes.of(copy) == MemoryKind::device)
    throw InternalError(argument_name(layout_.buckets[bucket], copy) +
                        " does not live on the host");
  return home(bucket, copy, offset, type);
}

Operand PassOperands::held(int bucket, Copy copy) {
  const Bucket& s = layout_.buckets[bucket];
  const auto [first, count] = s.part(copy);
  return range(bucket, copy, elements(s, copy, first),
               {{elements(s, copy, count)}, dtype(s, copy)});
}

Operand PassOperands::gradient(const std::string& name) {
  ParameterLayout::Location location = layout_.by_name.at(name);
  const Parameter& parameter = layout_.parameter(location);
  if (gradients_start_anew()) {
    const Bucket& bucket = layout_.bucket(location);
    Operand& whole = unreduced_[location.bucket];
    if (!whole)
      whole = builder_.temporary(argument_name(bucket, Copy::gradient) + ".unreduced",
                                 {{bucket.count}, dtype(bucket, Copy::gradient)},
                                 MemoryKind::device, Category::gradients);
    return {whole.buffer,
            parameter.offset * models::size_bytes(whole.type.dtype),
            {parameter.type.shape, whole.type.dtype}};
  }
  return range(location.bucket, Copy::gradient, parameter.offset,
               {parameter.type.shape, dtype(layout_.bucket(location), Copy::gradient)});
}

Operand PassOperands::weight(const std::string& name) {
  ParameterLayout::Location location = layout_.by_name.at(name);
  const Bucket& bucket = layout_.bucket(location);
  const Parameter& parameter = layout_.parameter(location);
  if (layout_.is_sharded()) return gathered_weight(location);
  if (bucket.homes.parameters == MemoryKind::device)
    return range(location.bucket, Copy::compute, parameter.offset, parameter.type);

  int first = location.parameter, last = location.parameter;
  auto is_small = [&](int p) {
    return bucket.parameters[p].type.bytes() < transfers_.smallest_bytes;
  };
  if (is_small(first)) {
    while (first > 0 && is_small(first - 1)) --first;
    while (last + 1 < std::ssize(bucket.parameters) && is_small(last + 1)) ++last;
  }
  int64_t begin = bucket.parameters[first].offset;
  int64_t end = bucket.parameters[last].offset + bucket.parameters[last].type.shape.count();
  Operand staged = range(location.bucket, Copy::compute, begin, {{end - begin}, bucket.dtype});
  return {staged.buffer, (parameter.offset - begin) * models::size_bytes(bucket.dtype),
          parameter.type};
}

Operand PassOperands::gathered_weight(const ParameterLayout::Location& location) {
  const Bucket& bucket = layout_.bucket(location);
  const Parameter& parameter = layout_.parameter(location);
  Operand& whole = gathered_[location.bucket];
  if (!whole)
    whole = builder_.gathered(held(location.bucket, Copy::compute), {{bucket.count}, bucket.dtype},
                              along(layout_.mesh, Axis::fsdp),
                              argument_name(bucket, Copy::compute) + ".gathered");
  return {whole.buffer, parameter.offset * models::size_bytes(bucket.dtype), parameter.type};
}

bool PassOperands::gradients_start_anew() const {
  bool needs_copy = gradients_ == GradientOwner::caller || layout_.any_on_host(&Homes::gradients);
  return layout_.is_sharded() || layout_.shard_optimizer_over_data ||
         (layout_.mesh.devices() > 1 && needs_copy);
}

Operand PassOperands::accumulated(int bucket) {
  if (!layout_.shard_optimizer_over_data) return held(bucket, Copy::gradient);
  // The replicas add up the same gradients; each updates with a part of their sum.
  const Bucket& s = layout_.buckets[bucket];
  const std::string name = argument_name(s, Copy::gradient) + ".accumulated";
  const Operand sum = builder_.argument(name, Type{{s.held.count}, dtype(s, Copy::gradient)},
                                        s.homes.of(Copy::gradient), category(Copy::gradient));
  return builder_.kind(sum) == MemoryKind::device ? sum : builder_.staged(sum, name + ".here");
}

void PassOperands::reduce(int bucket, MicroBatch micro_batch, const Scope& scope) {
  if (!gradients_start_anew()) {
    reduce_over_data(bucket, accumulated(bucket), micro_batch, scope);
    return;
  }
  const bool adds = !begins_step(micro_batch);
  // Where the sum over the replicas lies elsewhere, that of one micro-batch needs no place.
  const bool passes_on = layout_.shard_optimizer_over_data && ends_step(micro_batch);
  const Operand sum = adds || passes_on ? Operand{} : accumulated(bucket);
  Operand part = unreduced_.at(bucket);
  unreduced_.erase(bucket);
  if (layout_.is_sharded()) {
    const Operand whole = part;
    const Bucket& s = layout_.buckets[bucket];
    part = sum ? sum
               : builder_.temporary(argument_name(s, Copy::gradient) + ".reduced",
                                    {{s.held.count}, dtype(s, Copy::gradient)}, MemoryKind::device,
                                    Category::gradients);
    builder_.collective(models::reduce_scatter_op, along(layout_.mesh, Axis::fsdp), whole, part,
                        scope);
  } else if (sum) {
    builder_.move(Lane::compute, part, sum, scope);
    part = sum;
  }
  if (adds)
    to_add_[bucket] = part;
  else
    reduce_over_data(bucket, part, micro_batch, scope);
}

bool PassOperands::continue_reduction(int bucket, MicroBatch micro_batch, const Scope& scope) {
  auto part = to_add_.find(bucket);
  if (part == to_add_.end()) return true;
  Operand sum = accumulated(bucket), added = part->second;
  to_add_.erase(part);
  // As in reduce(): the sum goes on from here, so what earlier micro-batches made stays as it is.
  if (layout_.shard_optimizer_over_data && ends_step(micro_batch)) std::swap(sum, added);
  builder_.add(sum, added, scope);
  return !reduce_over_data(bucket, sum, micro_batch, scope);
}

bool PassOperands::reduce_over_data(int bucket, const Operand& sum, MicroBatch micro_batch,
                                    const Scope& scope) {
  if (!ends_step(micro_batch) || layout_.mesh.data.size == 1) return false;
  if (layout_.buckets[bucket].split == Axis::data) {
    // This device alone has the part, and its gradient is whole; accumulated() may be elsewhere.
    if (layout_.shard_optimizer_over_data)
      builder_.move(Lane::compute, sum, held(bucket, Copy::gradient), scope);
    return false;
  }
  const Collective replicas = along(layout_.mesh, Axis::data);
  if (layout_.shard_optimizer_over_data)
    builder_.collective(models::reduce_scatter_op, replicas, sum, held(bucket, Copy::gradient),
                        scope);
  else
    builder_.collective(models::all_reduce_op, replicas, sum, sum, scope);
  return true;
}

void PassOperands::gather_updated(int bucket, Lane updated_on, const Scope& scope) {
  const Bucket& s = layout_.buckets[bucket];
  const Type all{{s.held.count}, s.dtype};
  const Operand at_home = home(bucket, Copy::compute, s.held.first, all);
  const bool is_here = builder_.kind(at_home) == MemoryKind::device;
  const Type part{{s.updated.count}, s.dtype};
  // What the host has updated is newer than a range of it that layers may have read.
  const Operand mine = updated_on == Lane::host_compute && !is_here
                           ? builder_.staged(home(bucket, Copy::compute, s.updated.first, part),
                                             argument_name(s, Copy::compute) + ".updated_part")
                           : range(bucket, Copy::compute, s.updated.first, part);
  const Operand gathered = is_here
                               ? at_home
                               : builder_.temporary(argument_name(s, Copy::compute) + ".updated",
                                                    all, MemoryKind::device, Category::staging);
  builder_.collective(models::all_gather_op, along(layout_.mesh, Axis::data), mine, gathered,
                      scope);
  if (is_here) return;
  builder_.move(gathered, at_home, scope);
  // What this device alone has updated may be all of it, and is not newer than this.
  std::erase_if(staged_, [&](const auto& range) {
    const auto& [of, copy, offset, count] = range.first;
    return of == bucket && copy == Copy::compute;
  });
}

Operand PassOperands::batch(const Value& value) {
  Operand& operand = batch_[value.name];
  if (operand && operand.type != value.type)
    throw InternalError("batch input " + value.name + " has two types");
  if (!operand) {
    const std::string name = host_name(value.name);
    const Operand host =
        value.source == Source::batch
            ? builder_.argument_part(name, value.type, batches_.first, batches_.count,
                                     MemoryKind::pinned_host, Category::batch)
            : builder_.argument(name, value.type, MemoryKind::pinned_host, Category::batch);
    operand = builder_.temporary(value.name, value.type, MemoryKind::device, Category::batch);
    builder_.move(Lane::host_to_device, host, operand, {.stage = "batch"});
  }
  return operand;
}

void PassOperands::give_to_host(const std::string& name, const Operand& value, const Scope& scope) {
  const Operand host =
      builder_.argument_part(host_name(name), value.type, batches_.first, batches_.count,
                             MemoryKind::pinned_host, Category::batch);
  builder_.move(Lane::device_to_host, value, host, scope);
}

Operand PassOperands::scalar(const std::string& name, models::Dtype dtype) {
  return batch({.name = name, .type = {{}, dtype}, .source = Source::scalar});
}

Operand PassOperands::state(const std::string& name, const Type& type) {
  return builder_.argument(name, type, MemoryKind::device, Category::cache);
}

Operand PassOperands::host_scalar(const std::string& name, models::Dtype dtype) {
  return builder_.argument(host_name(name), Type{{}, dtype}, MemoryKind::pinned_host,
                           Category::batch);
}

}  // namespace longshore::offload
