// Where parameters lie: contiguous slabs, one for the trainable and one for the frozen parameters
// of each layer. A parameter is a named range of its slab. A trainable slab exists several times,
// in the same layout: compute weights (the model's dtype), master weights (float32, unless the
// compute weights are themselves what is trained), gradients (float32) and two moments. A frozen
// slab has compute weights only. Each copy has a home: device or pinned host memory. Where several
// devices train together along the mesh's axis fsdp, each holds an equal part of every copy, and
// the compute weights of a slab are gathered when a layer reads them. Along its axis data all hold
// the same compute weights; the copies that only the optimizer reads may be divided there again.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/ir/model.h"
#include "offload/memory/memory.h"
#include "offload/plan/collectives.h"

namespace longshore::offload {

// Elements that share a scale where moments have 8 bits.
inline constexpr int64_t kScaleBlock = 256;
// Parameters start at multiples of this many elements, so that each is aligned in every copy and
// has scales of its own.
inline constexpr int64_t kParameterAlignment = kScaleBlock;

enum class Copy : uint8_t {
  compute,
  master,
  gradient,
  first_moment,
  second_moment,
  first_scale,  // of 8-bit moments
  second_scale,
};
inline constexpr std::array kCopies{Copy::compute,      Copy::master,        Copy::gradient,
                                    Copy::first_moment, Copy::second_moment, Copy::first_scale,
                                    Copy::second_scale};

// What lives in host memory. Master weights are read by the optimizer alone, so they go with the
// parameters and with the optimizer.
struct Homes {
  MemoryKind parameters = MemoryKind::device;
  MemoryKind gradients = MemoryKind::device;
  MemoryKind optimizer = MemoryKind::device;

  MemoryKind of(Copy copy) const;
  bool any_on_host() const;
};

// A part of a slab, in elements from its start.
struct ElementRange {
  int64_t first = 0, count = 0;

  int64_t end() const { return first + count; }
};

struct LayoutOptions {
  models::Dtype weight_dtype = models::Dtype::float32;  // what is trained: float32 or bfloat16
  models::Dtype moment_dtype = models::Dtype::float32;  // float32, bfloat16, or uint8 with scales
  Homes homes;
  DeviceMesh mesh;
  // Divides what the optimizer reads among the replicas along data as well (ZeRO stage 1;
  // Rajbhandari et al. 2020, "ZeRO: Memory optimizations toward training trillion parameter
  // models").
  bool shard_optimizer_over_data = false;
};

struct Parameter {
  std::string name;  // full, as in a checkpoint
  models::Type type;
  models::Weight weight;
  int64_t offset = 0;  // elements from the slab's start
};

// A part of a slab without gaps, all of it decayed or none of it.
struct DecayRange {
  int64_t offset = 0, count = 0;  // elements
  models::Decay decay = models::Decay::no;
};

struct Slab {
  std::string name;  // "decoder.3", "decoder.3.frozen"
  models::Trainable trainable = models::Trainable::yes;
  models::Dtype dtype = models::Dtype::float32;         // of the compute weights
  models::Dtype weight_dtype = models::Dtype::float32;  // of the weights that are trained
  models::Dtype moment_dtype = models::Dtype::float32;
  std::vector<Parameter> parameters;  // decayed ones first
  int64_t count = 0;                  // elements, gaps included
  ElementRange held;                  // what this device has of the compute weights
  ElementRange updated;  // what of that it updates: all, or its share among the replicas

  // The ranges of the part that is updated here.
  std::vector<DecayRange> decay_ranges() const;
  bool has(Copy copy) const;
  // What this device has of a copy: the compute weights it holds, of other copies what it updates.
  ElementRange part(Copy copy) const { return copy == Copy::compute ? held : updated; }
};

struct ParameterLayout {
  struct Location {
    int slab = 0, parameter = 0;
  };

  std::vector<Slab> slabs;
  std::map<std::string, Location> by_name;
  Homes homes;
  DeviceMesh mesh;
  bool shard_optimizer_over_data = false;  // and there are replicas to divide it among

  bool is_sharded() const { return mesh.fsdp.size > 1; }
  const Slab& slab(const Location& location) const { return slabs[location.slab]; }
  const Parameter& parameter(const Location& location) const {
    return slabs[location.slab].parameters[location.parameter];
  }
};

// Throws InternalError when compute weights are wider than the weights that are trained.
ParameterLayout lay_out(const models::Model& model, const LayoutOptions& options = {});

// The same with everything held by one device.
ParameterLayout whole(ParameterLayout layout);

// What both ranges have.
ElementRange common(const ElementRange& a, const ElementRange& b);

std::string argument_name(const Slab& slab, Copy copy);
models::Dtype dtype(const Slab& slab, Copy copy);
Category category(Copy copy);
// Elements of a copy that stand for `count` elements of the slab, or for all of it.
int64_t elements(Copy copy, int64_t count);
// The bytes of the part that this device has.
int64_t bytes(const Slab& slab, Copy copy);

}  // namespace longshore::offload
