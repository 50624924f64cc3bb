#include "offload/parameter_layout.h"

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
    const int64_t first = std::max(begin, parameter.offset),
                  last = std::min(end, parameter.offset + parameter.type.shape.count());
    if (first >= last) continue;
    if (!ranges.empty() && ranges.back().decay == parameter.weight.decay &&
        ranges.back().offset + ranges.back().count == first)
      ranges.back().count += last - first;
    else
      ranges.push_back({first, last - first, parameter.weight.decay});
  }
  return ranges;
}

ParameterLayout lay_out(const models::Model& model, const LayoutOptions& options) {
  ParameterLayout layout{.slabs = {}, .by_name = {}, .homes = options.homes, .mesh = options.mesh};
  for (const models::Stage& stage : model.stages) {
    for (int layer = 0; layer < static_cast<int>(stage.layers.size()); ++layer) {
      const models::Program& program = stage.program(layer);
      std::string name = stage.is_scan() ? stage.name + "." + std::to_string(layer) : stage.name;
      Slab trainable{.name = name, .trainable = Trainable::yes, .parameters = {}};
      Slab frozen{.name = name + ".frozen", .trainable = Trainable::no, .parameters = {}};
      for (models::ValueId id : program.inputs_from(Source::weight)) {
        const models::Value& value = program[id];
        std::string full_name = models::weight_name(stage, layer, value);
        if (auto known = layout.by_name.find(full_name); known != layout.by_name.end()) {
          if (layout.parameter(known->second).type != value.type)
            throw InternalError(model.name + ": " + full_name + " has two types");
          continue;
        }
        Slab& slab = value.weight->trainable == Trainable::yes ? trainable : frozen;
        slab.dtype = value.type.dtype;
        slab.weight_dtype =
            value.weight->trainable == Trainable::yes ? options.weight_dtype : value.type.dtype;
        slab.moment_dtype = options.moment_dtype;
        if (size_bytes(slab.dtype) > size_bytes(slab.weight_dtype))
          throw InternalError(model.name + ": " + full_name + " computes in " +
                              models::name(slab.dtype) + " but is trained in " +
                              models::name(slab.weight_dtype));
        slab.parameters.push_back({full_name, value.type, *value.weight});
        layout.by_name[full_name] = {};  // its place is known below
      }
      for (Slab* slab : {&trainable, &frozen}) {
        if (slab->parameters.empty()) continue;
        std::stable_partition(slab->parameters.begin(), slab->parameters.end(),
                              [](const Parameter& p) { return p.weight.decay == Decay::yes; });
        for (Parameter& parameter : slab->parameters) {
          if (parameter.type.dtype != slab->dtype)
            throw InternalError(model.name + ": " + slab->name + " mixes dtypes");
          parameter.offset = slab->count;
          int64_t size = parameter.type.shape.count();
          slab->count += round_up(size, kParameterAlignment);
          layout.by_name[parameter.name] = {static_cast<int>(layout.slabs.size()),
                                            static_cast<int>(&parameter - slab->parameters.data())};
        }
        const MeshAxis& shards = options.mesh.fsdp;
        slab->count = round_up(slab->count, kParameterAlignment * shards.size);
        slab->begin = slab->count / shards.size * shards.rank;
        slab->end = slab->begin + slab->count / shards.size;
        layout.slabs.push_back(std::move(*slab));
      }
    }
  }
  return layout;
}

ParameterLayout whole(ParameterLayout layout) {
  layout.mesh = {};
  for (Slab& slab : layout.slabs) {
    slab.begin = 0;
    slab.end = slab.count;
  }
  return layout;
}

ElementRange held(const Slab& slab, const ElementRange& range) {
  const int64_t first = std::max(slab.begin, range.first),
                last = std::min(slab.end, range.first + range.count);
  return {first, std::max<int64_t>(0, last - first)};
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
  return elements(copy, slab.end - slab.begin) * models::size_bytes(dtype(slab, copy));
}

}  // namespace longshore::offload
