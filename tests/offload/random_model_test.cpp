// Random models under random options: whatever is kept, moved, computed again or divided among
// devices gives the bits of the plainest plan, and that plan's gradients are autograd's.
#include "tests/offload/random_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

#include "longshore/models/ops/update/lion.h"
#include "longshore/models/ops/update/sgd.h"
#include "longshore/trainer/step/memory_report.h"
#include "tests/models/autograd.h"
#include "tests/models/cpu_dtypes.h"
#include "tests/models/plain.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/random.h"
#include "tests/offload/shuffled_backend.h"
#include "tests/offload/tensors.h"
#include "tests/offload/training.h"

namespace longshore::offload {
namespace {

using models::OutputRole;
using models::Tensors;
namespace plain = models::plain;

constexpr MemoryKind kHost = MemoryKind::pinned_host;
const RandomModelSizes kSizes;

// What an op of random_model.cpp computes, with the attributes that it is given there.
at::Tensor compute(const std::string& op, const std::vector<at::Tensor>& in) {
  if (op == "embedding") return plain::embedding(in[0], in[1]);
  if (op == "add" || op == "add_bias") return in[0] + in[1];
  if (op == "put") return in[0];
  if (op == "linear") {
    at::Tensor product = plain::linear(in[0], in[1]);
    return in.size() == 3 ? product + in[2] : product;
  }
  if (op == "rms_norm") return plain::rms_norm(in[0], in[1], kRandomNormEpsilon);
  if (op == "swiglu") return plain::swiglu(in[0], in[1]);
  if (op == "attention") return plain::attention(in[0], in[1], in[2], kSizes.head_dim);
  if (op == "scale") return in[0] * kRandomScale;
  if (op == "gelu") return plain::gelu(in[0]);
  if (op == "soft_cap") return plain::soft_cap(in[0], kRandomCap);
  if (op == "linear_cross_entropy") return plain::cross_entropy(in[0], in[1], in[2]);
  if (op == "mean_square_error") return plain::mean_square_error(in[0], in[1]);
  if (op == "l2_penalty") return plain::l2_penalty(in[0], kRandomPenalty);
  throw std::logic_error("no plain composition of " + op);
}

// What a collective gives each rank.
std::vector<at::Tensor> exchanged(const std::string& op, const std::vector<at::Tensor>& in) {
  const auto ranks = std::ssize(in);
  auto sum = [&] {
    at::Tensor sum = in[0];
    for (int64_t i = 1; i < ranks; ++i) sum = sum + in[i];
    return sum;
  };
  std::vector<at::Tensor> out;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    auto part = [&](const at::Tensor& x) { return x.chunk(ranks)[rank]; };
    if (op == "all_gather") out.push_back(at::cat(in));
    if (op == "reduce_scatter") out.push_back(part(sum()));
    if (op == "all_reduce") out.push_back(sum());
    if (op != "all_to_all") continue;
    std::vector<at::Tensor> parts;
    for (const at::Tensor& x : in) parts.push_back(part(x));
    out.push_back(at::cat(parts));
  }
  return out;
}

struct Losses {
  at::Tensor loss, auxiliary_loss;
};

using OfRanks = std::vector<at::Tensor>;

// Of all ranks, each with its batch.
Losses plain_losses(const models::Model& model, const Tensors& weights,
                    const std::vector<Tensors>& batches) {
  const size_t ranks = batches.size();
  const at::Tensor zero = at::zeros({}, weights.begin()->second.options());
  Losses losses{zero, zero};
  std::vector<std::vector<OfRanks>> outputs;
  for (const models::Stage& stage : model.stages) {
    std::vector<std::vector<OfRanks>> of_layers;
    for (int layer = 0; layer < std::ssize(stage.layers); ++layer) {
      const models::Program& program = stage.program(layer);
      std::map<std::string, OfRanks> values;
      for (models::ValueId id : program.inputs_from(models::Source::batch))
        for (const Tensors& batch : batches)
          values[program[id].name].push_back(batch.at(program[id].name));
      for (models::ValueId id : program.inputs_from(models::Source::weight)) {
        const at::Tensor& whole = weights.at(models::weight_name(stage, layer, program[id]));
        const std::optional<models::Split>& split = program[id].weight->split;
        for (size_t rank = 0; rank < ranks; ++rank)
          values[program[id].name].push_back(
              split ? whole.chunk(split->parts, split->dimension)[rank] : whole);
      }
      const std::vector<models::ValueId> fed = program.inputs_from(models::Source::input);
      for (size_t i = 0; i < fed.size(); ++i)
        values[program[fed[i]].name] =
            i == 0 && layer > 0 ? of_layers.back()[0]
                                : outputs[stage.inputs[i].stage][stage.inputs[i].output_for(layer)];
      const std::vector<models::ValueId> earlier =
          program.inputs_from(models::Source::earlier_layer);
      const std::vector<models::LayerOutput> given = models::from_earlier_layers(stage, layer);
      for (size_t i = 0; i < earlier.size(); ++i)
        values[program[earlier[i]].name] = of_layers[given[i].layer][given[i].output];
      for (const models::Node& node : program.nodes) {
        OfRanks& out = values[program[node.out[0]].name];
        if (models::is_collective(*node.op)) {
          out = exchanged(node.op->name, values.at(program[node.in[0]].name));
          continue;
        }
        for (size_t rank = 0; rank < ranks; ++rank) {
          std::vector<at::Tensor> in;
          for (models::ValueId id : node.in) in.push_back(values.at(program[id].name)[rank]);
          out.push_back(compute(node.op->name, in));
        }
      }
      std::vector<OfRanks>& made = of_layers.emplace_back();
      for (const models::Output& output : program.outputs) {
        made.push_back(values.at(program[output.value].name));
        for (const at::Tensor& value : made.back()) {
          if (output.role == OutputRole::loss) losses.loss = losses.loss + value;
          if (output.role == OutputRole::auxiliary_loss)
            losses.auxiliary_loss = losses.auxiliary_loss + value;
        }
      }
    }
    outputs.push_back(std::move(of_layers.back()));
  }
  return losses;
}

struct PlainPass {
  double loss = 0, auxiliary_loss = 0;
  Tensors gradients;
};

// Weights start as those of run_pass(). Gradients are those of the losses, each times its factor.
PlainPass plain_pass(const models::Model& model, const std::vector<data::Batch>& batches,
                     at::ScalarType dtype, double of_loss = 1, double of_auxiliary_loss = 1,
                     const DeviceMesh& mesh = {}) {
  auto ids = [](const std::vector<int32_t>& values) {
    return ids_tensor(values, kSizes.batch, kSizes.length);
  };
  std::vector<Tensors> of_ranks;
  for (const data::Batch& batch : batches)
    of_ranks.push_back({{"tokens", ids(batch["tokens"])}, {"targets", ids(batch["targets"])}});
  Tensors leaves = models::as_leaves(initial_tensors(model, dtype, mesh));
  Losses losses = plain_losses(model, leaves, of_ranks);
  std::vector<at::Tensor> outputs, cotangents;
  for (const auto& [loss, factor] :
       {std::pair{losses.loss, of_loss}, std::pair{losses.auxiliary_loss, of_auxiliary_loss}})
    if (loss.requires_grad()) {
      outputs.push_back(loss);
      cotangents.push_back(at::full_like(loss, factor));
    }
  return {losses.loss.item<double>(), losses.auxiliary_loss.item<double>(),
          models::autograd(outputs, cotangents, leaves)};
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble).flatten() - b.to(at::kDouble).flatten()).norm().item<double>();
}

// In float32 some of these models are far from what they are in float64: autograd's own distance
// says how far.
TEST(RandomModels, GradientsAreAutograds) {
  data::Batch batch = data::synthetic_batches(
      {kSizes.batch, kSizes.length}, static_cast<int32_t>(kSizes.vocabulary), kDataSeed)(0);
  int far_off = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    models::Model model = random_model(seed, kSizes);
    const PlainPass expected = plain_pass(model, {batch}, at::kDouble);
    const PlainPass rounded = plain_pass(model, {batch}, at::kFloat);
    double largest = 0, rounding = 0;
    for (const auto& [name, gradient] : expected.gradients) {
      largest = std::max(largest, gradient.norm().item<double>());
      rounding = std::max(rounding, distance(gradient, rounded.gradients.at(name)));
    }
    far_off += !(rounding < 1e-4 * largest);

    PassResult found = run_pass({.model = model}, {batch});
    EXPECT_NEAR(found.loss, expected.loss, 1e-4 * std::abs(found.loss));
    EXPECT_NEAR(found.auxiliary_loss, expected.auxiliary_loss,
                1e-4 * std::abs(found.auxiliary_loss) + 1e-9);
    for (const auto& [name, gradient] : found.gradients)
      EXPECT_LT(distance(float_tensor(gradient, {static_cast<int64_t>(gradient.size())}),
                         expected.gradients.at(name)),
                1e-5 * largest + 20 * rounding)
          << name;
  }
  EXPECT_LT(far_off, 10) << "of models whose gradients say little";
}

// Of what trains.
double norm(const models::Model& model, const Tensors& gradients) {
  double squares = 0;
  std::set<std::string> trained;
  for (const models::Stage& stage : model.stages)
    for (int layer = 0; layer < std::ssize(stage.layers); ++layer)
      for (models::ValueId id : stage.program(layer).inputs_from(models::Source::weight))
        if (const models::Value& value = stage.program(layer)[id]; value.needs_gradient)
          trained.insert(models::weight_name(stage, layer, value));
  for (const std::string& name : trained)
    squares += gradients.at(name).to(at::kDouble).square().sum().item<double>();
  return std::sqrt(squares);
}

// Two devices along an axis, and a random model whose activations they exchange; along data some
// weights are split among them.
struct Exchange {
  DeviceMesh mesh;
  RandomModelSizes sizes;

  Exchange(uint32_t seed, models::Dtype dtype) : sizes{.dtype = dtype} {
    const models::Axis axis = seed % 3 == 0 ? models::Axis::data : models::Axis::fsdp;
    (axis == models::Axis::data ? mesh.data : mesh.fsdp).size = 2;
    sizes.among = along(mesh, axis);
  }
};

// Weights that train, and of which devices have parts.
int splits(const models::Program& program) {
  return static_cast<int>(std::ranges::count_if(program.values, [](const models::Value& value) {
    return value.weight && value.weight->split && value.needs_gradient;
  }));
}

TEST(RandomModels, ThatExchangeActivationsHaveAutogradsGradients) {
  auto source = data::synthetic_batches({kSizes.batch, kSizes.length},
                                        static_cast<int32_t>(kSizes.vocabulary), kDataSeed);
  const std::vector<data::Batch> batches{source(0), source(1)};
  const double targets = static_cast<double>(batches[0].total_weights + batches[1].total_weights);
  int exchanges = 0, split = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Exchange exchange(seed, models::Dtype::float32);
    models::Model model = random_model(seed, exchange.sizes);
    const PlainPass expected =
        plain_pass(model, batches, at::kDouble, 1 / targets, 0.5, exchange.mesh);
    const PlainPass rounded =
        plain_pass(model, batches, at::kFloat, 1 / targets, 0.5, exchange.mesh);
    const double rounding =
        std::abs(norm(model, expected.gradients) - norm(model, rounded.gradients));
    for (const models::Stage& stage : model.stages)
      for (const models::Program& program : stage.programs) {
        exchanges += static_cast<int>(std::ranges::count_if(
            program.nodes, [](const models::Node& n) { return models::is_collective(*n.op); }));
        split += splits(program);
      }
    const std::vector<Training> ranks =
        train_on(exchange.mesh, {.model = model, .unnamed_policy = keep_all(), .steps = 1});
    for (const Training& rank : ranks) {
      const trainer::StepResult& found = rank.results[0];
      EXPECT_NEAR(found.loss, expected.loss / targets, 1e-4 * std::abs(found.loss));
      EXPECT_NEAR(found.gradient_norm, norm(model, expected.gradients),
                  1e-5 * found.gradient_norm + 20 * rounding);
    }
  }
  EXPECT_GT(exchanges, 100);
  EXPECT_GT(split, 20);
}

class RandomOptions {
 public:
  RandomOptions(uint32_t seed, const models::Model& model, models::Dtype dtype)
      : random_(seed), is_bfloat16_(dtype == models::Dtype::bfloat16) {
    for (const models::Stage& stage : model.stages) {
      for (const models::Program& program : stage.programs) has_split_ |= splits(program) > 0;
      stages_.push_back(stage.name);
      if (!stage.is_scan()) continue;
      const auto layers = static_cast<int>(stage.layers.size());
      auto is_this = [&](const models::Stage& other) { return &other == &stage; };
      scans_.push_back({stage.name, models::labels(model, is_this), layers});
    }
  }

  // What changes results.
  TrainingOptions plain(models::Model model) {
    TrainingOptions options{.model = std::move(model),
                            .unnamed_policy = keep_all(),
                            .micro_batches = 1 + random_.below(3),
                            .clipping_threshold = random_.one_of({0.0, 0.0, 0.5})};
    options.optimizers = {random_.one_of(
        {models::adamw({.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1}),
         models::lion({.b1 = 0.9, .b2 = 0.99, .weight_decay = 0.1}),
         models::sgd({.momentum = 0.9, .weight_decay = 0.1, .nesterov = true})})};
    options.layout.optimizers =
        states_of(options.optimizers[0],
                  has_split_ ? random_.one_of({models::Dtype::float32, models::Dtype::bfloat16})
                             : random_.one_of({models::Dtype::float32, models::Dtype::bfloat16,
                                               models::Dtype::uint8}));
    if (is_bfloat16_)
      options.layout.weight_dtype =
          random_.one_of({models::Dtype::float32, models::Dtype::bfloat16});
    return options;
  }

  // What does not.
  void vary(TrainingOptions& options) {
    Scanned rest{.name = {}, .labels = {}, .layers = std::numeric_limits<int>::max()};
    options.by_stage.clear();
    for (const Scanned& scan : scans_) {
      if (random_.one_in(3)) {
        options.by_stage[scan.name] = policy_of(scan);
        continue;
      }
      rest.labels.insert(rest.labels.end(), scan.labels.begin(), scan.labels.end());
      rest.layers = std::min(rest.layers, scan.layers);
    }
    if (rest.labels.empty()) rest.layers = 0;
    StagePolicy others = policy_of(rest);
    options.unnamed_policy = std::move(others.first);
    options.offload_layers = others.offload_layers;
    options.others = std::move(others.others);
    options.transfers = {.prefetch_layers = random_.one_of({0.0, 0.3, 1.0, 4.0}),
                         .smallest_bytes = random_.one_of<int64_t>({1, 2048, 1 << 20})};
    options.layout.homes = homes();
    options.layout.homes_of_stage.clear();
    for (const std::string& stage : stages_)
      if (random_.one_in(4)) options.layout.homes_of_stage[stage] = homes();
    const bool all_on_host =
        options.layout.homes.optimizer == kHost &&
        std::ranges::all_of(options.layout.homes_of_stage,
                            [](const auto& own) { return own.second.optimizer == kHost; });
    const bool on_host = all_on_host && random_.one_in(2);
    options.update_lane = on_host ? Lane::host_compute : Lane::compute;
    options.flushes = random_.one_in(3);
    options.update_chunk = random_.one_of<int64_t>({256, 1024, 1 << 20});
  }

 private:
  // Scans that follow a policy.
  struct Scanned {
    std::string name;
    std::vector<std::string> labels;
    int layers = 0;  // of the shortest
  };

  MemoryKind home() { return random_.one_of({MemoryKind::device, kHost}); }
  Homes homes() { return {.parameters = home(), .gradients = home(), .optimizer = home()}; }

  StagePolicy policy_of(const Scanned& scan) {
    StagePolicy result{.first = policy(scan.labels), .offload_layers = {}, .others = {}};
    if (random_.one_in(2)) result.offload_layers = random_.below(scan.layers + 1);
    if (random_.one_in(3)) result.others = policy(scan.labels);
    return result;
  }

  Policy policy(const std::vector<std::string>& labels) {
    // Of a policy of this name, offloads that nothing reads are not refused.
    Policy policy{.name = "random", .otherwise = random_.one_of({Action::keep, Action::remat})};
    for (const std::string& label : labels) {
      const bool is_carry = label == "decoder_layer_input";
      if (random_.one_in(4)) continue;
      policy.actions[label] = is_carry
                                  ? random_.one_of({Action::keep, Action::offload})
                                  : random_.one_of({Action::keep, Action::offload, Action::remat});
    }
    return policy;
  }

  Random random_;
  bool is_bfloat16_, has_split_ = false;  // blocks of 8-bit states would be of several parts
  std::vector<std::string> stages_;
  std::vector<Scanned> scans_;
};

std::string text(const Policy& policy) {
  std::string text = std::string("otherwise ") + name(policy.otherwise);
  for (const auto& [label, action] : policy.actions) text += ", " + label + " " + name(action);
  return text;
}

std::string text(const Homes& homes) {
  return fmt::format("parameters {}, gradients {}, optimizer {}", name(homes.parameters),
                     name(homes.gradients), name(homes.optimizer));
}

std::string text(const StagePolicy& policy) {
  return fmt::format("{}; offload_layers {}; others: {}", text(policy.first),
                     policy.offload_layers.value_or(-1),
                     policy.others ? text(*policy.others) : "none");
}

// What is needed to find a fault.
std::string text(const TrainingOptions& o) {
  std::string of_stages;
  for (const auto& [stage, policy] : o.by_stage) of_stages += "; " + stage + ": " + text(policy);
  for (const auto& [stage, homes] : o.layout.homes_of_stage)
    of_stages += "; " + stage + ": " + text(homes);
  return of_stages +
         fmt::format(
             "; policy: {}; offload_layers {}; others: {}; prefetch_layers {}, smallest_bytes {}; "
             "parameters "
             "{}, "
             "gradients {}, {} {} on {}, states {}, weights {}; {} micro-batches, clipping {}, "
             "chunk {}{}",
             text(*o.unnamed_policy), o.offload_layers.value_or(-1),
             o.others ? text(*o.others) : "none", o.transfers.prefetch_layers,
             o.transfers.smallest_bytes, name(o.layout.homes.parameters),
             name(o.layout.homes.gradients), o.optimizers[0].rule->name,
             name(o.layout.homes.optimizer), name(o.update_lane),
             models::name(o.layout.optimizers[0].states[0].dtype),
             models::name(o.layout.weight_dtype), o.micro_batches, o.clipping_threshold,
             o.update_chunk, o.flushes ? ", flushes" : "");
}

// Allocations are those that the plans announce.
void expect_planned_memory(Training& training) {
  const trainer::MemoryByKind planned = trainer::analyze(training.plans.all());
  for (MemoryKind kind : {MemoryKind::device, kHost})
    EXPECT_EQ(training.allocated_bytes[kind], planned[kind].peak_bytes) << name(kind);
}

TEST(RandomModels, GiveTheBitsOfThePlainestPlanUnderRandomOptions) {
  const std::vector<models::Dtype> dtypes = models::cpu_dtypes();
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const RandomModelSizes sizes{.dtype = dtypes[seed % dtypes.size()]};
    models::Model model = random_model(seed, sizes);
    RandomOptions random(seed, model, sizes.dtype);
    TrainingOptions options = random.plain(model);
    Training plain = train(options);
    EXPECT_EQ(first_fault(plain.plans), "");
    EXPECT_TRUE(std::isfinite(plain.results.back().loss));  // or all bits could be NaN's
    for (int variant = 0; variant < 3; ++variant) {
      random.vary(options);
      std::unique_ptr<Backend> shuffled;
      if (variant > 0) shuffled = make_shuffled_backend(seed);
      options.backend = shuffled.get();
      Training other = train(options);
      EXPECT_EQ(first_fault(other.plans), "") << text(options);
      EXPECT_EQ(differences(plain, other), "") << text(options);
      expect_planned_memory(other);
    }
  }
}

// Whether each device has a part of what trains.
bool all_update(const models::Model& model, LayoutOptions options, const DeviceMesh& mesh) {
  options.mesh = mesh;
  for (options.mesh.data.rank = 0; options.mesh.data.rank < mesh.data.size;
       ++options.mesh.data.rank)
    for (options.mesh.fsdp.rank = 0; options.mesh.fsdp.rank < mesh.fsdp.size;
         ++options.mesh.fsdp.rank) {
      const ParameterLayout layout = lay_out(model, options);
      if (std::ranges::none_of(layout.buckets, [](const Bucket& bucket) {
            return bucket.trainable == models::Trainable::yes && !bucket.decay_ranges().empty();
          }))
        return false;
    }
  return true;
}

// Bits are compared on the same mesh: sums over devices have their own order.
TEST(RandomModels, GiveTheBitsOfThePlainestPlanOnSeveralDevices) {
  const std::vector<models::Dtype> dtypes = models::cpu_dtypes();
  int on_four = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    // Sums of bfloat16 are not exchanged.
    const models::Dtype dtype = dtypes[seed % dtypes.size()];
    auto [mesh, sizes] = Exchange(seed, dtype);
    if (dtype != models::Dtype::float32) sizes.among.reset();
    models::Model model = random_model(seed, sizes);
    RandomOptions random(seed, model, dtype);
    TrainingOptions options = random.plain(model);
    options.layout.shard_optimizer_over_data = mesh.data.size > 1 && seed % 2 == 0;
    if (DeviceMesh more = mesh; seed % 3 == 0) {
      more.fsdp.size = 2;
      if (all_update(model, options.layout, more)) mesh = more;
    }
    on_four += mesh.devices() == 4;
    auto train_on_mesh = [&](const TrainingOptions& o) {
      std::vector<Training> ranks = train_on(mesh, o);
      for (Training& rank : ranks)  // whose gaps hold anything
        std::erase_if(rank.state, [](const auto& s) { return s.first.ends_with(".gradient"); });
      return ranks;
    };
    std::vector<Training> plain = train_on_mesh(options);
    for (int variant = 0; variant < 2; ++variant) {
      random.vary(options);
      std::vector<Training> other = train_on_mesh(options);
      for (size_t rank = 0; rank < other.size(); ++rank) {
        EXPECT_EQ(first_fault(other[rank].plans), "") << text(options);
        EXPECT_EQ(differences(plain[rank], other[rank]), "") << text(options);
        expect_planned_memory(other[rank]);
      }
    }
  }
  EXPECT_GT(on_four, 10);
}

}  // namespace
}  // namespace longshore::offload
