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
  return std::any_of(kCopies.begin(), kCopies.end(),
                     [this](Copy copy) { return of(copy) != MemoryKind::device; });
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
  bool is_scale = copy == Copy::first_scale || copy == Copy::second_scale;
  return !is_scale || moment_dtype == Dtype::uint8;
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
                .homes = options.homes,
                .mesh = options.mesh,
                .shard_optimizer_over_data =
                    options.shard_optimizer_over_data && options.mesh.data.size > 1} {}

  void add_layer(const models::Stage& stage, int layer) {
    const models::Program& program = stage.program(layer);
    const std::string name =
        stage.is_scan() ? stage.name + "." + std::to_string(layer) : stage.name;
    Slab trainable{.name = name, .trainable = Trainable::yes, .parameters = {}};
    Slab frozen{.name = name + ".frozen", .trainable = Trainable::no, .parameters = {}};
    for (models::ValueId id : program.inputs_from(Source::weight)) {
      const models::Value& weight = program[id];
      const std::string full_name = models::weight_name(stage, layer, weight);
      if (!is_known(full_name, weight.type))
        add_parameter(full_name, weight,
                      weight.weight->trainable == Trainable::yes ? trainable : frozen);
    }
    for (Slab* slab : {&trainable, &frozen})
      if (!slab->parameters.empty()) place(std::move(*slab));
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

  void add_parameter(const std::string& full_name, const models::Value& weight, Slab& slab) const {
    slab.dtype = weight.type.dtype;
    slab.weight_dtype = slab.trainable == Trainable::yes ? options_.weight_dtype : slab.dtype;
    slab.moment_dtype = options_.moment_dtype;
    if (size_bytes(slab.dtype) > size_bytes(slab.weight_dtype))
      throw InternalError(model_.name + ": " + full_name + " computes in " +
                          models::name(slab.dtype) + " but is trained in " +
                          models::name(slab.weight_dtype));
    slab.parameters.push_back({full_name, weight.type, *weight.weight});
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
  static constexpr const char* kNames[] = {"compute",      "master",        "gradient",
                                           "first_moment", "second_moment", "first_scale",
                                           "second_scale"};
  return slab.name + "." + kNames[static_cast<size_t>(copy)];
}

Dtype dtype(const Slab& slab, Copy copy) {
  switch (copy) {
    case Copy::compute:
      return slab.dtype;
    case Copy::master:
      return slab.weight_dtype;
    case Copy::first_moment:
    case Copy::second_moment:
      return slab.moment_dtype;
    default:
      return Dtype::float32;
  }
}

Category category(Copy copy) {
  switch (copy) {
    case Copy::compute:
    case Copy::master:
      return Category::parameters;
    case Copy::gradient:
      return Category::gradients;
    default:
      return Category::optimizer;
  }
}

int64_t elements(Copy copy, int64_t count) {
  bool is_scale = copy == Copy::first_scale || copy == Copy::second_scale;
  return is_scale ? ceil_div(count, kScaleBlock) : count;
}

int64_t bytes(const Slab& slab, Copy copy) {
  return elements(copy, slab.part(copy).count) * models::size_bytes(dtype(slab, copy));
}

}  // namespace longshore::offload
