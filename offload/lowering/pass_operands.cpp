#include "offload/lowering/pass_operands.h"

#include "base/error.h"

namespace longshore::offload {

using models::Source;
using models::Type;
using models::Value;

std::string host_name(const std::string& name) { return name + ".host"; }

Operand PassOperands::home(int slab, Copy copy, int64_t offset, const Type& type) {
  const Slab& s = layout_.slabs[slab];
  std::string name = argument_name(s, copy);
  MemoryKind kind = s.homes.of(copy);
  int64_t offset_bytes =
      (offset - elements(s, copy, s.part(copy).first)) * models::size_bytes(dtype(s, copy));
  if (copy == Copy::gradient && gradients_ != GradientOwner::caller) {
    auto [entry, is_new] = gradient_buffers_.try_emplace(slab, -1);
    // A shard that only fills its slab up is never read.
    const bool outlives_run = gradients_ != GradientOwner::plan && !s.decay_ranges().empty();
    if (is_new)
      entry->second =
          outlives_run
              ? builder_.outliving(name, bytes(s, copy), kind, Category::gradients, before_)
              : builder_.temporary(name, bytes(s, copy), kind, Category::gradients);
    return {entry->second, offset_bytes, type};
  }
  return {builder_.argument(name, bytes(s, copy), kind, category(copy)), offset_bytes, type};
}

Operand PassOperands::range(int slab, Copy copy, int64_t offset, const Type& type) {
  Operand at_home = home(slab, copy, offset, type);
  if (layout_.slabs[slab].homes.of(copy) == MemoryKind::device) return at_home;
  Operand& window = windows_[{slab, copy, offset, type.shape.count()}];
  if (!window)
    window = builder_.window(
        at_home, argument_name(layout_.slabs[slab], copy) + "[" + std::to_string(offset) + "]");
  return {window.buffer, window.offset, type};
}

Operand PassOperands::host_range(int slab, Copy copy, int64_t offset, const Type& type) {
  if (layout_.slabs[slab].homes.of(copy) == MemoryKind::device)
    throw InternalError(argument_name(layout_.slabs[slab], copy) + " does not live on the host");
  return home(slab, copy, offset, type);
}

Operand PassOperands::held(int slab, Copy copy) {
  const Slab& s = layout_.slabs[slab];
  const auto [first, count] = s.part(copy);
  return range(slab, copy, elements(s, copy, first), {{elements(s, copy, count)}, dtype(s, copy)});
}

Operand PassOperands::gradient(const std::string& name) {
  ParameterLayout::Location location = layout_.by_name.at(name);
  const Parameter& parameter = layout_.parameter(location);
  if (gradients_start_anew()) {
    const Slab& slab = layout_.slab(location);
    Operand& whole = unreduced_[location.slab];
    if (!whole)
      whole = builder_.temporary(argument_name(slab, Copy::gradient) + ".unreduced",
                                 {{slab.count}, dtype(slab, Copy::gradient)}, MemoryKind::device,
                                 Category::gradients);
    return {whole.buffer,
            parameter.offset * models::size_bytes(whole.type.dtype),
            {parameter.type.shape, whole.type.dtype}};
  }
  return range(location.slab, Copy::gradient, parameter.offset,
               {parameter.type.shape, dtype(layout_.slab(location), Copy::gradient)});
}

Operand PassOperands::weight(const std::string& name) {
  ParameterLayout::Location location = layout_.by_name.at(name);
  const Slab& slab = layout_.slab(location);
  const Parameter& parameter = layout_.parameter(location);
  if (layout_.is_sharded()) return gathered_weight(location);
  if (slab.homes.parameters == MemoryKind::device)
    return range(location.slab, Copy::compute, parameter.offset, parameter.type);

  int first = location.parameter, last = location.parameter;
  auto is_small = [&](int p) {
    return slab.parameters[p].type.bytes() < transfers_.smallest_bytes;
  };
  if (is_small(first)) {
    while (first > 0 && is_small(first - 1)) --first;
    while (last + 1 < std::ssize(slab.parameters) && is_small(last + 1)) ++last;
  }
  int64_t begin = slab.parameters[first].offset;
  int64_t end = slab.parameters[last].offset + slab.parameters[last].type.shape.count();
  Operand window = range(location.slab, Copy::compute, begin, {{end - begin}, slab.dtype});
  return {window.buffer, (parameter.offset - begin) * models::size_bytes(slab.dtype),
          parameter.type};
}

Operand PassOperands::gathered_weight(const ParameterLayout::Location& location) {
  const Slab& slab = layout_.slab(location);
  const Parameter& parameter = layout_.parameter(location);
  Operand& whole = gathered_[location.slab];
  if (!whole)
    whole = builder_.gathered(held(location.slab, Copy::compute), {{slab.count}, slab.dtype},
                              along(layout_.mesh, Axis::fsdp),
                              argument_name(slab, Copy::compute) + ".gathered");
  return {whole.buffer, parameter.offset * models::size_bytes(slab.dtype), parameter.type};
}

bool PassOperands::gradients_start_anew() const {
  bool needs_copy = gradients_ == GradientOwner::caller || layout_.any_on_host(&Homes::gradients);
  return layout_.is_sharded() || layout_.shard_optimizer_over_data ||
         (layout_.mesh.devices() > 1 && needs_copy);
}

Operand PassOperands::accumulated(int slab) {
  if (!layout_.shard_optimizer_over_data) return held(slab, Copy::gradient);
  // The replicas add up the same gradients; each updates with a part of their sum.
  const Slab& s = layout_.slabs[slab];
  const std::string name = argument_name(s, Copy::gradient) + ".accumulated";
  const Operand sum = builder_.argument(name, Type{{s.held.count}, dtype(s, Copy::gradient)},
                                        s.homes.of(Copy::gradient), category(Copy::gradient));
  return builder_.kind(sum) == MemoryKind::device ? sum : builder_.window(sum, name + ".here");
}

void PassOperands::reduce(int slab, MicroBatch micro_batch, const Scope& scope) {
  if (!gradients_start_anew()) {
    reduce_over_data(slab, accumulated(slab), micro_batch, scope);
    return;
  }
  const bool adds = !begins_step(micro_batch);
  // Where the sum over the replicas lies elsewhere, that of one micro-batch needs no place.
  const bool passes_on = layout_.shard_optimizer_over_data && ends_step(micro_batch);
  const Operand sum = adds || passes_on ? Operand{} : accumulated(slab);
  Operand part = unreduced_.at(slab);
  unreduced_.erase(slab);
  if (layout_.is_sharded()) {
    const Operand whole = part;
    const Slab& s = layout_.slabs[slab];
    part = sum ? sum
               : builder_.temporary(argument_name(s, Copy::gradient) + ".reduced",
                                    {{s.held.count}, dtype(s, Copy::gradient)}, MemoryKind::device,
                                    Category::gradients);
    builder_.collective(reduce_scatter_op, along(layout_.mesh, Axis::fsdp), whole, part, scope);
  } else if (sum) {
    builder_.move(Lane::compute, part, sum, scope);
    part = sum;
  }
  if (adds)
    to_add_[slab] = part;
  else
    reduce_over_data(slab, part, micro_batch, scope);
}

bool PassOperands::continue_reduction(int slab, MicroBatch micro_batch, const Scope& scope) {
  auto part = to_add_.find(slab);
  if (part == to_add_.end()) return true;
  Operand sum = accumulated(slab), added = part->second;
  to_add_.erase(part);
  // As in reduce(): the sum goes on from here, so what earlier micro-batches made stays as it is.
  if (layout_.shard_optimizer_over_data && ends_step(micro_batch)) std::swap(sum, added);
  builder_.add(sum, added, scope);
  return !reduce_over_data(slab, sum, micro_batch, scope);
}

bool PassOperands::reduce_over_data(int slab, const Operand& sum, MicroBatch micro_batch,
                                    const Scope& scope) {
  if (!ends_step(micro_batch) || layout_.mesh.data.size == 1) return false;
  const Collective replicas = along(layout_.mesh, Axis::data);
  if (layout_.shard_optimizer_over_data)
    builder_.collective(reduce_scatter_op, replicas, sum, held(slab, Copy::gradient), scope);
  else
    builder_.collective(all_reduce_op, replicas, sum, sum, scope);
  return true;
}

void PassOperands::gather_updated(int slab, const Scope& scope) {
  const Slab& s = layout_.slabs[slab];
  const Type all{{s.held.count}, s.dtype};
  const Operand at_home = home(slab, Copy::compute, s.held.first, all);
  const Operand mine = range(slab, Copy::compute, s.updated.first, {{s.updated.count}, s.dtype});
  const bool is_here = builder_.kind(at_home) == MemoryKind::device;
  const Operand gathered = is_here
                               ? at_home
                               : builder_.temporary(argument_name(s, Copy::compute) + ".updated",
                                                    all, MemoryKind::device, Category::staging);
  builder_.collective(all_gather_op, along(layout_.mesh, Axis::data), mine, gathered, scope);
  if (!is_here) builder_.move(gathered, at_home, scope);
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
