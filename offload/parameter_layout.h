// Where parameters lie: contiguous slabs, one for the trainable and one for the frozen parameters
// of each layer. A parameter is a named range of its slab. A trainable slab exists several times,
// in the same layout: compute weights (the model's dtype), master weights (float32, where that
// differs), gradients and two moments (float32). A frozen slab has compute weights only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/model.h"

namespace longshore::offload {

// Parameters start at multiples of this many elements, so that each is aligned in every copy.
inline constexpr int64_t kParameterAlignment = 64;

struct Parameter {
  std::string name;  // full, as in a checkpoint
  models::Type type;
  models::Weight weight;
  int64_t offset = 0;  // elements from the slab's start
};

// A part of a slab without gaps, all of it decayed or none of it.
struct Run {
  int64_t offset = 0, count = 0;  // elements
  models::Decay decay = models::Decay::no;
};

struct Slab {
  std::string name;  // "decoder.3", "decoder.3.frozen"
  models::Trainable trainable = models::Trainable::yes;
  models::Dtype dtype = models::Dtype::float32;  // of the compute weights
  std::vector<Parameter> parameters;             // decayed ones first
  int64_t count = 0;                             // elements, gaps included

  std::vector<Run> runs() const;
  bool has_master() const {
    return trainable == models::Trainable::yes && dtype != models::Dtype::float32;
  }
};

struct ParameterLayout {
  struct Location {
    int slab = 0, parameter = 0;
  };

  std::vector<Slab> slabs;
  std::map<std::string, Location> by_name;

  const Slab& slab(const Location& location) const { return slabs[location.slab]; }
  const Parameter& parameter(const Location& location) const {
    return slabs[location.slab].parameters[location.parameter];
  }
};

ParameterLayout lay_out(const models::Model& model);

// The copies of a slab, and their names as arguments of plans.
enum class Copy : uint8_t { compute, master, gradient, first_moment, second_moment };
std::string argument_name(const Slab& slab, Copy copy);
models::Dtype dtype(const Slab& slab, Copy copy);
int64_t bytes(const Slab& slab, Copy copy);

}  // namespace longshore::offload
