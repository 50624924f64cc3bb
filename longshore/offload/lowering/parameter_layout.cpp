#include "longshore/offload/lowering/parameter_layout.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/base/round_up.h"

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

bool Bucket::has(Copy copy) const {
  if (copy == Copy::compute) return true;
  if (trainable == Trainable::no) return false;
  if (copy == Copy::master) return dtype != weight_dtype;
  return copy == Copy::gradient || copy < state_copy(states.size());
}

std::vector<Copy> Bucket::copies() const {
  std::vector<Copy> copies;
  for (Copy copy : {Copy::compute, Copy::master, Copy::gradient})
    if (has(copy)) copies.push_back(copy);
  for (size_t i = 0; i < states.size(); ++i) copies.push_back(state_copy(i));
  return copies;
}

std::vector<ElementRange> Parameter::trained_ranges() const {
  const int64_t all = type.shape.count();
  if (weight.trained_slices.empty()) return {{0, all}};
  const int64_t slice = all / std::ssize(weight.trained_slices);
  std::vector<ElementRange> ranges;
  for (int64_t i = 0; i < std::ssize(weight.trained_slices); ++i) {
    if (!weight.trained_slices[i]) continue;
    if (!ranges.empty() && ranges.back().end() == i * slice)
      ranges.back().count += slice;
    else
      ranges.push_back({i * slice, slice});
  }
  return ranges;
}

std::vector<DecayRange> Bucket::decay_ranges() const {
  std::vector<DecayRange> ranges;
  for (const Parameter& parameter : parameters)
    for (const ElementRange& trained : parameter.trained_ranges()) {
      const auto [first, count] =
          common(updated, {parameter.offset + trained.first, trained.count});
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

std::optional<models::Axis> axis_of(const std::optional<models::Split>& split) {
  return split ? std::optional(split->axis) : std::nullopt;
}

// Adds the buckets of one layer after the other.
class LayoutBuilder {
 public:
  LayoutBuilder(const models::Model& model, const LayoutOptions& options)
      : model_(model),
        options_(options),
        layout_{.buckets = {},
                .by_name = {},
                .mesh = options.mesh,
                .shard_optimizer_over_data =
                    options.shard_optimizer_over_data && options.mesh.data.size > 1} {}

  void add_layer(const models::Stage& stage, int layer) {
    const models::Program& program = stage.program(layer);
    const std::string name =
        stage.is_scan() ? stage.name + "." + std::to_string(layer) : stage.name;
    std::vector<Bucket> buckets;
    add_buckets(name, std::nullopt, buckets);
    add_buckets(name + ".split_over_data", models::Axis::data, buckets);
    for (Bucket& bucket : buckets) bucket.homes = homes_of(stage, layer);
    for (models::ValueId id : program.inputs_from(Source::weight)) {
      const models::Value& weight = program[id];
      Parameter parameter{.name = weight_name(stage, layer, weight),
                          .type = weight.type,
                          .weight = *weight.weight,
                          .tensors = saved_names(stage, layer, weight)};
      if (auto& adapter = parameter.weight.adapter)
        for (std::string* name : {&adapter->a, &adapter->b, &adapter->magnitudes})
          if (!name->empty()) *name = weight_name(stage, layer, program[program.find(*name)]);
      check_split(parameter);
      if (is_known(parameter)) continue;
      add(parameter, bucket_for(parameter, buckets));
    }
    for (Bucket& bucket : buckets)
      if (!bucket.parameters.empty()) place(std::move(bucket));
  }

  ParameterLayout finish() { return std::move(layout_); }

 private:
  Homes homes_of(const models::Stage& stage, int layer) const {
    Homes homes = options_.homes_of(stage.name);
    const bool may_stay = options_.layers_on_device > 0 && stage.is_scan();
    if (may_stay && stage.name == main_stage(model_).name &&
        is_among_spread(layer, static_cast<int>(stage.layers.size()), options_.layers_on_device))
      homes.parameters = MemoryKind::device;
    return homes;
  }

  // One for each optimizer, then those of what is frozen.
  void add_buckets(const std::string& name, std::optional<models::Axis> split,
                   std::vector<Bucket>& buckets) const {
    for (size_t i = 0; i < std::max<size_t>(options_.optimizers.size(), 1); ++i)
      buckets.push_back({.name = i == 0 ? name : name + ".optimizer_" + std::to_string(i),
                         .trainable = Trainable::yes,
                         .optimizer = static_cast<int>(i),
                         .split = split,
                         .states = options_.optimizers.empty() ? std::vector<State>{}
                                                               : options_.optimizers[i].states,
                         .parameters = {}});
    buckets.push_back({.name = name + ".frozen",
                       .trainable = Trainable::no,
                       .split = split,
                       .states = {},
                       .parameters = {}});
    buckets.push_back({.name = name + ".quantized",
                       .trainable = Trainable::no,
                       .dtype = Dtype::uint8,
                       .split = split,
                       .states = {},
                       .parameters = {}});
  }

  // In one part, it is not split.
  void check_split(Parameter& parameter) const {
    std::optional<models::Split>& split = parameter.weight.split;
    if (!split) return;
    auto refuse = [&](const std::string& expected) {
      throw InternalError(model_.name + ": " + parameter.name + " is " + text(*split) +
                          ", expected " + expected);
    };
    if (parameter.weight.quantized) refuse("all of a quantized weight");
    const int rank = parameter.type.shape.rank();
    if (split->axis == models::Axis::fsdp) refuse("another axis: fsdp divides buckets");
    if (const int64_t devices = options_.mesh.along(split->axis).size; split->parts != devices)
      refuse(std::to_string(devices) + " parts, as the mesh has devices along it");
    if (split->dimension < 0 || split->dimension >= rank)
      refuse("a dimension of " + models::text(parameter.type));
    if (split->parts == 1) split.reset();
  }

  Bucket& bucket_for(const Parameter& parameter, std::vector<Bucket>& buckets) const {
    const Trainable trainable = parameter.weight.trainable;
    const auto optimizer =
        trainable == Trainable::yes ? static_cast<int>(optimizer_of(parameter)) : 0;
    return *std::ranges::find_if(buckets, [&](const Bucket& one) {
      return one.split == axis_of(parameter.weight.split) && one.trainable == trainable &&
             one.optimizer == optimizer &&
             (one.dtype == Dtype::uint8) == parameter.weight.quantized.has_value();
    });
  }

  // Whether an earlier layer owns it.
  bool is_known(const Parameter& parameter) const {
    const auto known = layout_.by_name.find(parameter.name);
    if (known == layout_.by_name.end()) return false;
    const Parameter& first = layout_.parameter(known->second);
    if (first.type != parameter.type || first.weight.split != parameter.weight.split)
      throw InternalError(model_.name + ": " + parameter.name + " has two types");
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

  // A block of elements that share a scale lies in one part.
  static void check_blocks(const Parameter& parameter, int64_t block) {
    if (!parameter.weight.split) return;
    const models::SplitRuns runs(parameter.type.shape, parameter.weight.split);
    if (runs.longest() % block != 0)
      throw ConfigError("optimizer states of 8 bits: " + parameter.name + " is " +
                        text(*parameter.weight.split) + ", of rows of " +
                        std::to_string(runs.longest()) + " elements; expected a multiple of " +
                        std::to_string(block));
  }

  // Updates are of whole blocks.
  static void check_slices(const Parameter& parameter) {
    const int64_t slices = std::ssize(parameter.weight.trained_slices);
    if (slices == 0) return;
    const int64_t elements = parameter.type.shape.count() / slices;
    if (elements % kParameterAlignment != 0)
      throw InternalError(parameter.name + ": found some of its " + std::to_string(slices) +
                          " slices that train, of " + std::to_string(elements) +
                          " elements each, expected a multiple of " +
                          std::to_string(kParameterAlignment));
  }

  void add(const Parameter& parameter, Bucket& bucket) const {
    check_slices(parameter);
    bucket.dtype = parameter.type.dtype;
    bucket.weight_dtype = bucket.trainable == Trainable::yes ? options_.weight_dtype : bucket.dtype;
    if (size_bytes(bucket.dtype) > size_bytes(bucket.weight_dtype))
      throw InternalError(model_.name + ": " + parameter.name + " computes in " +
                          models::name(bucket.dtype) + " but is trained in " +
                          models::name(bucket.weight_dtype));
    for (const State& state : bucket.states) check_blocks(parameter, state.block);
    bucket.parameters.push_back(parameter);
  }

  void place(Bucket bucket) {
    std::stable_partition(bucket.parameters.begin(), bucket.parameters.end(),
                          [](const Parameter& p) { return p.weight.decay == Decay::yes; });
    for (int p = 0; p < std::ssize(bucket.parameters); ++p) {
      Parameter& parameter = bucket.parameters[p];
      if (parameter.type.dtype != bucket.dtype)
        throw InternalError(model_.name + ": " + bucket.name + " mixes dtypes");
      parameter.offset = bucket.count;
      bucket.count += round_up(parameter.type.shape.count(), kParameterAlignment);
      layout_.by_name[parameter.name] = {static_cast<int>(layout_.buckets.size()), p};
    }
    const auto& [replicas, shards] = options_.mesh;
    const int64_t updaters =
        layout_.shard_optimizer_over_data && bucket.split != models::Axis::data ? replicas.size : 1;
    bucket.count = round_up(bucket.count, kParameterAlignment * shards.size * updaters);
    bucket.held.count = bucket.count / shards.size;
    bucket.held.first = bucket.held.count * shards.rank;
    bucket.updated.count = bucket.held.count / updaters;
    bucket.updated.first =
        bucket.held.first + (updaters > 1 ? bucket.updated.count * replicas.rank : 0);
    layout_.buckets.push_back(std::move(bucket));
  }

  const models::Model& model_;
  const LayoutOptions& options_;
  ParameterLayout layout_;
};

}  // namespace

bool is_among_spread(int layer, int layers, int chosen) {
  const auto up_to = [&](int64_t end) { return end * chosen / layers; };
  return up_to(layer + 1) > up_to(layer);
}

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
  return std::ranges::any_of(buckets, [](const Bucket& s) { return s.homes.any_on_host(); });
}

bool ParameterLayout::any_on_host(MemoryKind Homes::*what) const {
  return std::ranges::any_of(buckets,
                             [&](const Bucket& s) { return s.homes.*what != MemoryKind::device; });
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
  for (Bucket& bucket : layout.buckets) {
    const int64_t parts = bucket.split ? bucket.parameters[0].weight.split->parts : 1;
    bucket.held = bucket.updated = {0, bucket.count * parts};
  }
  return layout;
}

int64_t offset_in_whole(const Bucket& bucket, const Parameter& parameter,
                        const models::SplitRun& run) {
  return run.part * bucket.count + parameter.offset + run.in_part;
}

ElementRange common(const ElementRange& a, const ElementRange& b) {
  const int64_t first = std::max(a.first, b.first), end = std::min(a.end(), b.end());
  return {first, std::max<int64_t>(0, end - first)};
}

std::string argument_name(const Bucket& bucket, Copy copy) {
  static constexpr const char* kNames[] = {"compute", "master", "gradient"};
  return bucket.name + "." +
         (is_state(copy) ? bucket.state(copy).name : kNames[static_cast<size_t>(copy)]);
}

Dtype dtype(const Bucket& bucket, Copy copy) {
  if (is_state(copy)) return bucket.state(copy).dtype;
  if (copy == Copy::compute) return bucket.dtype;
  return copy == Copy::master ? bucket.weight_dtype : Dtype::float32;
}

Category category(Copy copy) {
  if (is_state(copy)) return Category::optimizer;
  return copy == Copy::gradient ? Category::gradients : Category::parameters;
}

int64_t elements(const Bucket& bucket, Copy copy, int64_t count) {
  return is_state(copy) ? ceil_div(count, bucket.state(copy).block) : count;
}

int64_t bytes(const Bucket& bucket, Copy copy) {
  return elements(bucket, copy, bucket.part(copy).count) * models::size_bytes(dtype(bucket, copy));
}

}  // namespace longshore::offload
