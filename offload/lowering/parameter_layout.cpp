#include "offload/lowering/parameter_layout.h"

#include <algorithm>

#include "base/error.h"
#include "base/round_up.h"

namespace longshore::offload {

using models::Decay;
using models::Dtype;
using models::Source;
using models::Trainable;

bool Homes::any_on_host() const {
  return parameters != MemoryKind::device || gradients != MemoryKind::device ||
         optimizer != MemoryKind::device;
}

MemoryKind Homes::of(Copy copy) const {
  switch (copy) {
    case Copy::compute:
      return parameters;
    case Copy::master:
      return parameters == MemoryKind::device ? optimizer : parameters;
    case Copy::gradient:
      return gradients;
    default:
      return optimizer;
  }
}

bool Slab::has(Copy copy) const {
  if (copy == Copy::compute) return true;
  if (trainable == Trainable::no) return false;
  if (copy == Copy::master) return dtype != weight_dtype;
  return copy == Copy::gradient || copy < state_copy(states.size());
}

std::vector<Copy> Slab::copies() const {
  std::vector<Copy> copies;
  for (Copy copy : {Copy::compute, Copy::master, Copy::gradient})
    if (has(copy)) copies.push_back(copy);
  for (size_t i = 0; i < states.size(); ++i) copies.push_back(state_copy(i));
  return copies;
}

std::vector<DecayRange> Slab::decay_ranges() const {
  std::vector<DecayRange> ranges;
  for (const Parameter& parameter : parameters) {
    const auto [first, count] = common(updated, {parameter.offset, parameter.type.shape.count()});
    if (count == 0) continue;
    if (!ranges.empty() && ranges.back().decay == parameter.weight.decay &&
        ranges.back().offset + ranges.back().count == first)
      ranges.back().count += count;
    else
      ranges.push_back({first, count, parameter.weight.decay});
  }
  return ranges;
}

namespace {

// Adds the slabs of one layer after the other.
class LayoutBuilder {
 public:
  LayoutBuilder(const models::Model& model, const LayoutOptions& options)
      : model_(model),
        options_(options),
        layout_{.slabs = {},
                .by_name = {},
                .mesh = options.mesh,
                .shard_optimizer_over_data =
                    options.shard_optimizer_over_data && options.mesh.data.size > 1} {}

  void add_layer(const models::Stage& stage, int layer) {
    const models::Program& program = stage.program(layer);
    const std::string name =
        stage.is_scan() ? stage.name + "." + std::to_string(layer) : stage.name;
    std::vector<Slab> slabs;  // one for each optimizer, then that of what is frozen
    for (size_t i = 0; i < std::max<size_t>(options_.optimizers.size(), 1); ++i)
      slabs.push_back({.name = i == 0 ? name : name + ".optimizer_" + std::to_string(i),
                       .trainable = Trainable::yes,
                       .optimizer = static_cast<int>(i),
                       .states = options_.optimizers.empty() ? std::vector<State>{}
                                                             : options_.optimizers[i].states,
                       .parameters = {}});
    slabs.push_back(
        {.name = name + ".frozen", .trainable = Trainable::no, .states = {}, .parameters = {}});
    for (Slab& slab : slabs) slab.homes = options_.homes_of(stage.name);
    for (models::ValueId id : program.inputs_from(Source::weight)) {
      const models::Value& weight = program[id];
      const std::string full_name = models::weight_name(stage, layer, weight);
      if (is_known(full_name, weight.type)) continue;
      const Parameter parameter{full_name, weight.type, *weight.weight};
      add(parameter, weight.weight->trainable == Trainable::no ? slabs.back()
                                                               : slabs[optimizer_of(parameter)]);
    }
    for (Slab& slab : slabs)
      if (!slab.parameters.empty()) place(std::move(slab));
  }

  ParameterLayout finish() { return std::move(layout_); }

 private:
  // Whether an earlier layer owns it.
  bool is_known(const std::string& full_name, const models::Type& type) const {
    const auto known = layout_.by_name.find(full_name);
    if (known == layout_.by_name.end()) return false;
    if (layout_.parameter(known->second).type != type)
      throw InternalError(model_.name + ": " + full_name + " has two types");
    return true;
  }

  size_t optimizer_of(const Parameter& parameter) const {
    if (options_.optimizers.empty()) return 0;
    const auto found = std::ranges::find_if(options_.optimizers, [&](const OptimizerStates& one) {
      return !one.updates || one.updates(parameter);
    });
    if (found == options_.optimizers.end())
      throw InternalError(model_.name + ": " + parameter.name + " has no optimizer");
    return static_cast<size_t>(found - options_.optimizers.begin());
  }

  void add(const Parameter& parameter, Slab& slab) const {
    slab.dtype = parameter.type.dtype;
    slab.weight_dtype = slab.trainable == Trainable::yes ? options_.weight_dtype : slab.dtype;
    if (size_bytes(slab.dtype) > size_bytes(slab.weight_dtype))
      throw InternalError(model_.name + ": " + parameter.name + " computes in " +
                          models::name(slab.dtype) + " but is trained in " +
                          models::name(slab.weight_dtype));
    slab.parameters.push_back(parameter);
  }

  void place(Slab slab) {
    std::stable_partition(slab.parameters.begin(), slab.parameters.end(),
                          [](const Parameter& p) { return p.weight.decay == Decay::yes; });
    for (int p = 0; p < std::ssize(slab.parameters); ++p) {
      Parameter& parameter = slab.parameters[p];
      if (parameter.type.dtype != slab.dtype)
        throw InternalError(model_.name + ": " + slab.name + " mixes dtypes");
      parameter.offset = slab.count;
      slab.count += round_up(parameter.type.shape.count(), kParameterAlignment);
      layout_.by_name[parameter.name] = {static_cast<int>(layout_.slabs.size()), p};
    }
    const auto& [replicas, shards] = options_.mesh;
    const int64_t updaters = layout_.shard_optimizer_over_data ? replicas.size : 1;
    slab.count = round_up(slab.count, kParameterAlignment * shards.size * updaters);
    slab.held.count = slab.count / shards.size;
    slab.held.first = slab.held.count * shards.rank;
    slab.updated.count = slab.held.count / updaters;
    slab.updated.first = slab.held.first + (updaters > 1 ? slab.updated.count * replicas.rank : 0);
    layout_.slabs.push_back(std::move(slab));
  }

  const models::Model& model_;
  const LayoutOptions& options_;
  ParameterLayout layout_;
};

}  // namespace

const Homes& LayoutOptions::homes_of(const std::string& stage) const {
  const auto own = homes_of_stage.find(stage);
  return own == homes_of_stage.end() ? homes : own->second;
}

bool LayoutOptions::any_on_host() const {
  return homes.any_on_host() || std::ranges::any_of(homes_of_stage, [](const auto& own) {
           return own.second.any_on_host();
         });
}

bool ParameterLayout::any_on_host() const {
  return std::ranges::any_of(slabs, [](const Slab& s) { return s.homes.any_on_host(); });
}

bool ParameterLayout::any_on_host(MemoryKind Homes::*what) const {
  return std::ranges::any_of(slabs,
                             [&](const Slab& s) { return s.homes.*what != MemoryKind::device; });
}

ParameterLayout lay_out(const models::Model& model, const LayoutOptions& options) {
  LayoutBuilder builder(model, options);
  for (const models::Stage& stage : model.stages)
    for (int layer = 0; layer < std::ssize(stage.layers); ++layer) builder.add_layer(stage, layer);
  return builder.finish();
}

ParameterLayout whole(ParameterLayout layout) {
  layout.mesh = {};
  layout.shard_optimizer_over_data = false;
  for (Slab& slab : layout.slabs) slab.held = slab.updated = {0, slab.count};
  return layout;
}

ElementRange common(const ElementRange& a, const ElementRange& b) {
  const int64_t first = std::max(a.first, b.first), end = std::min(a.end(), b.end());
  return {first, std::max<int64_t>(0, end - first)};
}

std::string argument_name(const Slab& slab, Copy copy) {
  static constexpr const char* kNames[] = {"compute", "master", "gradient"};
  return slab.name + "." +
         (is_state(copy) ? slab.state(copy).name : kNames[static_cast<size_t>(copy)]);
}

Dtype dtype(const Slab& slab, Copy copy) {
  if (is_state(copy)) return slab.state(copy).dtype;
  if (copy == Copy::compute) return slab.dtype;
  return copy == Copy::master ? slab.weight_dtype : Dtype::float32;
}

Category category(Copy copy) {
  if (is_state(copy)) return Category::optimizer;
  return copy == Copy::gradient ? Category::gradients : Category::parameters;
}

int64_t elements(const Slab& slab, Copy copy, int64_t count) {
  return is_state(copy) ? ceil_div(count, slab.state(copy).block) : count;
}

int64_t bytes(const Slab& slab, Copy copy) {
  return elements(slab, copy, slab.part(copy).count) * models::size_bytes(dtype(slab, copy));
}

}  // namespace longshore::offload
