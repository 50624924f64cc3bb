#include "offload/parameter_layout.h"

#include <algorithm>

#include "base/error.h"

namespace longshore::offload {

using models::Decay;
using models::Dtype;
using models::Source;
using models::Trainable;

std::vector<Run> Slab::runs() const {
  std::vector<Run> runs;
  for (const Parameter& parameter : parameters) {
    int64_t size = parameter.type.shape.count();
    if (!runs.empty() && runs.back().decay == parameter.weight.decay &&
        runs.back().offset + runs.back().count == parameter.offset)
      runs.back().count += size;
    else
      runs.push_back({parameter.offset, size, parameter.weight.decay});
  }
  return runs;
}

ParameterLayout lay_out(const models::Model& model) {
  ParameterLayout layout;
  for (const models::Stage& stage : model.stages) {
    for (int layer = 0; layer < static_cast<int>(stage.layers.size()); ++layer) {
      const models::Program& program = stage.programs[stage.layers[layer]];
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
          slab->count +=
              (size + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
          layout.by_name[parameter.name] = {static_cast<int>(layout.slabs.size()),
                                            static_cast<int>(&parameter - slab->parameters.data())};
        }
        layout.slabs.push_back(std::move(*slab));
      }
    }
  }
  return layout;
}

std::string argument_name(const Slab& slab, Copy copy) {
  static constexpr const char* kNames[] = {"compute", "master", "gradient", "first_moment",
                                           "second_moment"};
  return slab.name + "." + kNames[static_cast<size_t>(copy)];
}

Dtype dtype(const Slab& slab, Copy copy) {
  return copy == Copy::compute ? slab.dtype : Dtype::float32;
}

int64_t bytes(const Slab& slab, Copy copy) {
  return slab.count * models::size_bytes(dtype(slab, copy));
}

}  // namespace longshore::offload
