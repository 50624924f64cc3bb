// A ParameterLayout says where parameters lie: contiguous buckets, one for the trainable parameters
// of each layer that an optimizer updates, one for the frozen ones, and one for those of them whose
// numbers are quantized. A parameter is a named range of its bucket. A trainable bucket exists
// several times, in the same layout: compute weights (the model's dtype), master weights (float32,
// unless the compute weights are themselves what is trained), gradients (float32) and the states
// that its optimizer declares. A frozen bucket has compute weights only. Each copy has a home:
// device or pinned host memory. Where several devices train together along the mesh's axis fsdp,
// each holds an equal part of every copy, and the compute weights of a bucket are gathered when a
// layer reads them. Along its axis data all hold the same compute weights; the copies that only the
// optimizer reads may be divided there again. Parameters that are split along an axis
// (models::Split) have buckets of their own, which differ from device to device along it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "longshore/models/ir/model.h"
#include "longshore/offload/memory/memory.h"
#include "longshore/offload/plan/mesh.h"

namespace longshore::offload {

// Elements that share a scale where states have 8 bits.
inline constexpr int64_t kScaleBlock = 256;
// Parameters start at multiples of this many elements, so that each is aligned in every copy and
// has scales of its own.
inline constexpr int64_t kParameterAlignment = kScaleBlock;

enum class Copy : uint8_t {
  compute,
  master,
  gradient,
  state,  // the first of Bucket::states; the others follow: state_copy()
};
constexpr Copy state_copy(size_t number) {
  return static_cast<Copy>(static_cast<size_t>(Copy::state) + number);
}
constexpr bool is_state(Copy copy) { return copy >= Copy::state; }

// What an optimizer keeps from step to step: a value for each element of a bucket, or for each
// block.
struct State {
  std::string name;  // "first_moment"
  models::Dtype dtype = models::Dtype::float32;
  int64_t block = 1;  // elements that share a value: 1 or kScaleBlock
};

struct Parameter;

// An optimizer's states, and the parameters that it updates.
struct OptimizerStates {
  std::vector<State> states;
  bool (*updates)(const Parameter&) = nullptr;  // null: all
};

// What lives in host memory. Master weights are read by the optimizer alone, so they go with the
// parameters and with the optimizer.
struct Homes {
  MemoryKind parameters = MemoryKind::device;
  MemoryKind gradients = MemoryKind::device;
  MemoryKind optimizer = MemoryKind::device;

  MemoryKind of(Copy copy) const;
  bool any_on_host() const;
};

// A part of a bucket, in elements from its start.
struct ElementRange {
  int64_t first = 0, count = 0;

  int64_t end() const { return first + count; }
};

struct LayoutOptions {
  models::Dtype weight_dtype = models::Dtype::float32;  // what is trained: float32 or bfloat16
  Homes homes;  // of the stages that are not in homes_of_stage
  std::map<std::string, Homes> homes_of_stage = {};
  // So many layers of the main stage, evenly spread, have their parameters on the device, whatever
  // the others' home is: what is fetched of the others has their computing to hide behind.
  int layers_on_device = 0;
  DeviceMesh mesh;
  // Divides what the optimizer reads among the replicas along data as well (ZeRO stage 1;
  // Rajbhandari et al. 2020, "ZeRO: Memory optimizations toward training trillion parameter
  // models").
  bool shard_optimizer_over_data = false;
  // A trainable parameter goes to the first that updates it. None: nothing is kept.
  std::vector<OptimizerStates> optimizers;

  const Homes& homes_of(const std::string& stage) const;
  bool any_on_host() const;
};

// Whether that one of so many layers is one of `chosen` that are spread evenly, the last among
// them.
bool is_among_spread(int layer, int layers, int chosen);

struct Parameter {
  std::string name;                        // full
  models::Type type;                       // of its part, if it is split
  models::Weight weight;                   // names of its adapter's weights are full
  std::vector<std::string> tensors{name};  // of checkpoints: models::saved_names
  int64_t offset = 0;                      // elements from the bucket's start

  // What of it trains, from its start, if it does.
  std::vector<ElementRange> trained_ranges() const;
  // Of the numbers, where the parameter is their codes and scales.
  const models::Type& numbers() const {
    return weight.quantized ? weight.quantized->numbers : type;
  }
  // As checkpoints have it, or its rows of a tensor.
  models::Shape tensor_shape() const {
    return weight.saved_shape.value_or(models::tensor_shape(numbers().shape, weight.split));
  }
};

// A part of a bucket without gaps, all of it decayed or none of it.
struct DecayRange {
  int64_t offset = 0, count = 0;  // elements
  models::Decay decay = models::Decay::no;
};

struct Bucket {
  std::string name;  // "decoder.3", "decoder.3.optimizer_1", "decoder.3.split_over_data.frozen"
  models::Trainable trainable = models::Trainable::yes;
  models::Dtype dtype = models::Dtype::float32;         // of the compute weights
  models::Dtype weight_dtype = models::Dtype::float32;  // of the weights that are trained
  int optimizer = 0;                                    // its place in LayoutOptions::optimizers
  std::optional<models::Axis> split;                    // along which its parameters are split
  std::vector<State> states;                            // that it keeps
  std::vector<Parameter> parameters;                    // decayed ones first
  Homes homes = {};
  int64_t count = 0;     // elements, gaps included; of one part, if it is split
  ElementRange held;     // what this device has of the compute weights
  ElementRange updated;  // what of that it updates: all, or its share among the replicas

  // The ranges of the part that is updated here, without what does not train.
  std::vector<DecayRange> decay_ranges() const;
  bool has(Copy copy) const;
  std::vector<Copy> copies() const;  // all that it has
  const State& state(Copy copy) const {
    return states.at(static_cast<size_t>(copy) - static_cast<size_t>(Copy::state));
  }
  // What this device has of a copy: the compute weights it holds, of other copies what it updates.
  ElementRange part(Copy copy) const { return copy == Copy::compute ? held : updated; }
};

struct ParameterLayout {
  struct Location {
    int bucket = 0, parameter = 0;
  };

  std::vector<Bucket> buckets;
  std::map<std::string, Location> by_name;
  DeviceMesh mesh;
  bool shard_optimizer_over_data = false;  // and there are replicas to divide it among

  bool is_sharded() const { return mesh.fsdp.size > 1; }
  // Whether there is a bucket of which something, or this, lives in host memory.
  bool any_on_host() const;
  bool any_on_host(MemoryKind Homes::*what) const;
  const Bucket& bucket(const Location& location) const { return buckets[location.bucket]; }
  const Parameter& parameter(const Location& location) const {
    return buckets[location.bucket].parameters[location.parameter];
  }
};

// Throws InternalError when compute weights are wider than the weights that are trained, when there
// are optimizers, but none for a parameter, and when a parameter is not split over all devices of
// an axis, or over fsdp, which divides buckets, and where slices of which some train do not have
// whole blocks of elements. Throws ConfigError where parts would share a scale of 8-bit states.
ParameterLayout lay_out(const models::Model& model, const LayoutOptions& options = {});

// The same with everything held by one device: of what is split, one part's bucket after the other.
ParameterLayout whole(ParameterLayout layout);

// Where elements of a parameter are that follow each other, in a layout that is whole().
int64_t offset_in_whole(const Bucket& bucket, const Parameter& parameter,
                        const models::SplitRun& run);

// What both ranges have.
ElementRange common(const ElementRange& a, const ElementRange& b);

std::string argument_name(const Bucket& bucket, Copy copy);
models::Dtype dtype(const Bucket& bucket, Copy copy);
Category category(Copy copy);
// Elements of a copy that stand for `count` elements of the bucket.
int64_t elements(const Bucket& bucket, Copy copy, int64_t count);
// The bytes of the part that this device has.
int64_t bytes(const Bucket& bucket, Copy copy);

}  // namespace longshore::offload
