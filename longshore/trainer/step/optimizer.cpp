#include "longshore/trainer/step/optimizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/base/philox.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/kernels/block8.h"

namespace longshore::trainer {
namespace {

static_assert(offload::kScaleBlock == models::kBlock8);

using models::Dtype;
using models::Program;
using models::Trace;
using models::Trainable;
using models::Var;
using offload::Category;
using offload::Copy;
using offload::Lane;
using offload::MemoryKind;
using offload::Operand;
using offload::PlanBuilder;

// Where the values of one update lie.
struct Operands {
  struct State {
    Operand value, scales;
  };

  Operand gradient, weight;
  std::vector<State> states;  // the rule's
  Operand compute;            // where weights are copied for computing
  Operand learning_rate;
  std::vector<Operand> scalars;  // the rule's
  Operand clip, step;
};

// The program, and its operands by value; each result lies where its input does.
Program update_program(const models::Optimizer& optimizer, const models::Rounding& rounding,
                       const Operands& at, PlanBuilder::Bindings& bindings) {
  const models::UpdateRule& rule = *optimizer.rule;
  Trace t(rule.name);
  auto bind = [&](Var var, const Operand& operand) {
    bindings.resize(std::max<size_t>(bindings.size(), var.id.index + 1));
    bindings[var.id.index] = operand;
    return var;
  };
  auto input = [&](const char* name, const Operand& operand) {
    return operand ? bind(t.input(name, operand.type), operand) : Var{};
  };
  auto scalar = [&](const char* name, const Operand& operand) {
    return operand ? bind(t.scalar(name, operand.type.dtype), operand) : Var{};
  };
  models::UpdateOperands of{.gradient = input("gradient", at.gradient),
                            .weight = input("weight", at.weight),
                            .states = {},
                            .learning_rate = {},
                            .scalars = {},
                            .clip = {},
                            .step = {}};
  std::vector<Operand> places{at.weight};  // of the results
  for (size_t i = 0; i < rule.states.size(); ++i) {
    const auto& [value, scales] = at.states[i];
    of.states.push_back(
        {input(rule.states[i].name, value), input(rule.states[i].scale_name, scales)});
    places.push_back(value);
    if (scales) places.push_back(scales);
  }
  if (at.compute) places.push_back(at.compute);
  of.learning_rate = scalar(kLearningRate, at.learning_rate);
  for (size_t i = 0; i < rule.scalars.size(); ++i)
    of.scalars.push_back(scalar(rule.scalars[i], at.scalars[i]));
  of.clip = scalar("clip", at.clip);
  of.step = scalar(kStep, at.step);
  Dtype compute = at.compute ? at.compute.type.dtype : at.weight.type.dtype;
  const std::vector<Var> results = models::update(optimizer, compute, of, rounding);
  for (size_t i = 0; i < results.size(); ++i) {
    bind(results[i], places[i]);
    t.output(results[i]);
  }
  return t.finish();
}

// The type of what a copy has of a part of its bucket: flat where elements share values.
models::Type type_of(const offload::Bucket& bucket, Copy copy, const models::Shape& shape) {
  const int64_t count = offload::elements(bucket, copy, shape.count());
  return {count == shape.count() ? shape : models::Shape{count}, dtype(bucket, copy)};
}

// Small enough to be spread over a layer, large enough to be worth a kernel and a copy.
int64_t chunk_of(const offload::Bucket& bucket, int64_t most) {
  constexpr int64_t kParts = 16, kLeast = int64_t{1} << 20;
  int64_t part = (bucket.count / kParts + offload::kScaleBlock) / offload::kScaleBlock;
  return std::min(most, std::max(kLeast, part * offload::kScaleBlock));
}

}  // namespace

std::vector<offload::State> states_of(const models::Optimizer& optimizer,
                                      models::StateFormat format) {
  std::vector<offload::State> states;
  for (const auto& [name, scale_name] : optimizer.rule->states)
    states.push_back({.name = name, .dtype = models::state_type(format, 1).dtype});
  if (format == models::StateFormat::block8)
    for (const auto& [name, scale_name] : optimizer.rule->states)
      states.push_back({.name = scale_name, .block = offload::kScaleBlock});
  return states;
}

std::string learning_rate_scalar(const models::Optimizer& rule, size_t optimizer) {
  if (rule.learning_rate_ratio == 1) return kLearningRate;
  return fmt::format("{}.{}", kLearningRate, optimizer);
}

std::string rule_scalar(const models::Optimizer& rule, size_t optimizer, size_t scalar) {
  const std::string name = rule.rule->scalars[scalar];
  return optimizer == 0 ? name : name + "." + std::to_string(optimizer);
}

MemoryKind OptimizerOptions::kind() const {
  return lane == Lane::host_compute ? MemoryKind::pinned_host : MemoryKind::device;
}

Update::Update(const OptimizerOptions& options, offload::PassOperands& operands,
               PlanBuilder& builder, const Operand& clip)
    : options_(options),
      layout_(operands.layout()),
      operands_(operands),
      builder_(builder),
      clip_(clip) {}

int Update::add(int bucket) {
  size_t before = queue_.size();
  const offload::Bucket& s = layout_.buckets[bucket];
  if (options_.lane == Lane::host_compute && s.homes.optimizer == MemoryKind::device)
    throw InternalError(s.name + ": is updated on the host, but its states are on the device");
  const models::Optimizer& optimizer = options_.optimizers.at(static_cast<size_t>(s.optimizer));
  if (optimizer.rule->region == models::Region::matrix)
    add_matrices(bucket);
  else
    add_ranges(bucket);
  // A shard that only fills its bucket up has states all the same, which nothing updates.
  if (queue_.size() == before)
    for (Copy copy : s.copies())
      if (copy != Copy::compute && copy != Copy::gradient)
        builder_.argument(argument_name(s, copy), bytes(s, copy), s.homes.of(copy), category(copy));
  return static_cast<int>(queue_.size() - before);
}

void Update::add_ranges(int bucket) {
  const offload::Bucket& s = layout_.buckets[bucket];
  const int64_t chunk = chunk_of(s, options_.chunk);
  for (const offload::DecayRange& range : s.decay_ranges())
    for (int64_t begin = 0; begin < range.count; begin += chunk) {
      const int64_t count = std::min(chunk, range.count - begin);
      queue_.push_back({bucket, {range.offset + begin, count, range.decay}, {count}});
    }
}

void Update::add_matrices(int bucket) {
  const offload::Bucket& s = layout_.buckets[bucket];
  for (const offload::Parameter& parameter : s.parameters) {
    const models::Shape& shape = parameter.type.shape;
    if (s.split ||
        offload::common(s.updated, {parameter.offset, shape.count()}).count != shape.count())
      throw ConfigError("found a part of " + parameter.name + " on a device, expected all of it: " +
                        options_.optimizers[static_cast<size_t>(s.optimizer)].rule->name +
                        " updates whole matrices, which devices cannot share yet");
    queue_.push_back({bucket, {parameter.offset, shape.count(), parameter.weight.decay}, shape});
  }
}

void Update::run(int chunks) {
  for (int i = 0; i < chunks; ++i) {
    Chunk chunk = fetched_ ? *fetched_ : fetch_next();
    fetched_.reset();
    if (!queue_.empty()) fetched_ = fetch_next();
    update(chunk);
  }
}

void Update::gather(int bucket) {
  if (layout_.shard_optimizer_over_data && layout_.buckets[bucket].split != offload::Axis::data)
    operands_.gather_updated(bucket, options_.lane, {"weights", bucket, offload::Phase::optimizer});
}

bool Update::is_away(const offload::Bucket& bucket, Copy copy) const {
  return options_.lane == Lane::host_compute && bucket.homes.of(copy) == MemoryKind::device;
}

// Where the lane works: as it lies there, through a staged range, or in a copy that the lane can
// reach.
Operand Update::reach(const Chunk& chunk, Copy copy) {
  const offload::Bucket& s = layout_.buckets[chunk.part.bucket];
  if (!s.has(copy)) return {};
  models::Type type = type_of(s, copy, chunk.part.shape);
  int64_t offset = offload::elements(s, copy, chunk.part.range.offset);
  if (options_.lane == Lane::compute) return operands_.range(chunk.part.bucket, copy, offset, type);
  if (!is_away(s, copy)) return operands_.host_range(chunk.part.bucket, copy, offset, type);
  return builder_.temporary(argument_name(s, copy), type, MemoryKind::pinned_host,
                            Category::staging);
}

// Nothing of scales that the bucket has not.
Operand Update::reach_state(const Chunk& chunk, const char* name) {
  const offload::Bucket& s = layout_.buckets[chunk.part.bucket];
  const auto found = std::ranges::find(s.states, name, &offload::State::name);
  if (found == s.states.end()) return {};
  return reach(chunk, offload::state_copy(static_cast<size_t>(found - s.states.begin())));
}

Update::Chunk Update::fetch_next() {
  Chunk chunk{queue_.front(), {"optimizer", chunks_++, offload::Phase::optimizer}, {}, {}};
  queue_.pop_front();
  const auto& [bucket, range, shape] = chunk.part;
  const offload::Bucket& s = layout_.buckets[bucket];
  chunk.gradient = reach(chunk, Copy::gradient);
  chunk.compute = reach(chunk, Copy::compute);
  auto bring = [&](Copy copy, const Operand& here) {
    if (is_away(s, copy))
      builder_.move(Lane::device_to_host,
                    operands_.range(bucket, copy, range.offset, type_of(s, copy, shape)), here,
                    chunk.scope);
  };
  bring(Copy::gradient, chunk.gradient);
  if (!s.has(Copy::master)) bring(Copy::compute, chunk.compute);
  return chunk;
}

void Update::update(const Chunk& chunk) {
  const offload::Bucket& s = layout_.buckets[chunk.part.bucket];
  const offload::DecayRange& range = chunk.part.range;
  auto scalar = [&](const std::string& name, Dtype dtype = Dtype::float32) {
    return options_.lane == Lane::host_compute ? operands_.host_scalar(name, dtype)
                                               : operands_.scalar(name, dtype);
  };
  bool has_master = s.has(Copy::master);
  models::Optimizer optimizer = options_.optimizers.at(static_cast<size_t>(s.optimizer));
  if (range.decay == models::Decay::no) optimizer.weight_decay = 0;
  Operands at{
      .gradient = chunk.gradient,
      .weight = has_master ? reach(chunk, Copy::master) : chunk.compute,
      .states = {},
      .compute = has_master ? chunk.compute : Operand{},
      .learning_rate = scalar(learning_rate_scalar(optimizer, static_cast<size_t>(s.optimizer))),
      .scalars = {},
      .clip = clip_,
      .step = {}};
  for (const auto& [name, scale_name] : optimizer.rule->states)
    at.states.push_back({reach_state(chunk, name), reach_state(chunk, scale_name)});
  for (const Operands::State& state : at.states)
    if (!state.value)
      throw InternalError(s.name + " was laid out for another optimizer than " +
                          optimizer.rule->name);
  for (size_t i = 0; i < optimizer.rule->scalars.size(); ++i)
    at.scalars.push_back(scalar(rule_scalar(optimizer, static_cast<size_t>(s.optimizer), i)));
  const auto is_float32 = [](const offload::State& state) { return state.dtype == Dtype::float32; };
  if (s.weight_dtype != Dtype::float32 || !std::ranges::all_of(s.states, is_float32))
    at.step = scalar(kStep, Dtype::int32);

  PlanBuilder::Bindings bindings;
  // Parts of a tensor round with random numbers of their own.
  const std::string part =
      s.split ? " " + std::to_string(layout_.mesh.along(*s.split).rank) : std::string();
  Program program = update_program(
      optimizer, {options_.seed, random_sequence(s.name + part), range.offset}, at, bindings);
  builder_.run(program, bindings, chunk.scope, options_.lane);
  if (!is_away(s, Copy::compute)) return;
  // What the chunk before sends may be on its way still: this one's takes other memory.
  if (sent_) builder_.keep_alive(sent_);
  builder_.move(Lane::host_to_device, chunk.compute,
                operands_.range(chunk.part.bucket, Copy::compute, range.offset,
                                type_of(s, Copy::compute, chunk.part.shape)),
                chunk.scope);
  sent_ = chunk.compute;
}

}  // namespace longshore::trainer
