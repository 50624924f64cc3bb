// Models of which a part trains: what does not train has no gradient, no moments, and keeps nothing
// for gradients that nobody asks for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "longshore/base/error.h"
#include "longshore/data/rows/batches.h"
#include "longshore/models/ops/update/sgd.h"
#include "longshore/offload/plan/memory_analysis.h"
#include "longshore/offload/policy/partition.h"
#include "tests/models/cpu_dtypes.h"
#include "tests/offload/plan_checks.h"
#include "tests/offload/training.h"

namespace longshore::offload {
namespace {

using Names = std::set<std::string>;

models::DecoderConfig tiny_lora(std::vector<std::string> targets = {"q_proj", "v_proj"},
                                models::Dtype dtype = models::Dtype::float32) {
  models::DecoderConfig config = tiny_llama(dtype);
  config.lora = {.rank = 3, .alpha = 8, .targets = std::move(targets)};
  return config;
}

std::vector<std::string> all_targets() { return models::lora_targets(models::kLlama.layer); }

models::Model masked(const models::DecoderConfig& config, const std::string& part) {
  models::Model model = models::decoder(config);
  set_trainable(model, [&](const std::string& name) { return name.find(part) != name.npos; });
  return model;
}

Partition last_layer(const models::Model& model, const std::string& policy = "none") {
  const models::Program& program = model.stages[1].programs[model.stages[1].layers.back()];
  return partition(program, models::backward(program), make_policy(policy, {}, program));
}

Names residuals(const Partition& partition) {
  Names names;
  for (const Residual& residual : partition.residuals)
    names.insert(partition.forward[residual.value].name);
  return names;
}

Names minus(const Names& a, const Names& b) {
  Names rest;
  std::ranges::set_difference(a, b, std::inserter(rest, rest.end()));
  return rest;
}

// --- what is kept

TEST(PartlyTrained, InputsOfFrozenWeightsAreNotKept) {
  models::DecoderConfig config = tiny_llama();
  Partition all = last_layer(models::decoder(config));
  Partition attention = last_layer(masked(config, "self_attn"));
  // The MLP's projections read the second norm and the activation; nothing else does.
  EXPECT_EQ(minus(residuals(all), residuals(attention)), (Names{"rms_norm_2", "swiglu"}));
  EXPECT_EQ(minus(residuals(attention), residuals(all)), Names{});
  int64_t tokens = config.batch * config.length;
  EXPECT_EQ(residual_bytes(all, Action::keep) - residual_bytes(attention, Action::keep),
            tokens * (config.width + config.mlp_width) * 4);
}

TEST(Lora, KeepsNoInputsOfBaseWeights) {
  models::DecoderConfig config = tiny_lora();
  Partition all = last_layer(models::decoder(tiny_llama()));
  Partition lora = last_layer(models::decoder(config));
  EXPECT_EQ(minus(residuals(all), residuals(lora)), (Names{"rms_norm_2", "swiglu"}));
  EXPECT_EQ(minus(residuals(lora), residuals(all)), (Names{"scale", "scale_2"}));
  int64_t tokens = config.batch * config.length;
  EXPECT_EQ(residual_bytes(all, Action::keep) - residual_bytes(lora, Action::keep),
            tokens * (config.width + config.mlp_width - 2 * config.lora.rank) * 4);

  // Of attention's projections only the last: not even their own input is read again.
  Partition out = last_layer(models::decoder(tiny_lora({"o_proj"})));
  EXPECT_EQ(minus(residuals(all), residuals(out)), (Names{"rms_norm", "rms_norm_2", "swiglu"}));
  EXPECT_EQ(minus(residuals(out), residuals(all)), Names{"scale"});
}

// Labels stand where they do without adapters.
TEST(Lora, TakesEveryPolicy) {
  for (const PolicyInfo& policy : policies()) {
    Partition partition = last_layer(models::decoder(tiny_lora(all_targets())), policy.name);
    for (const models::GradientOf& gradient : partition.gradients) {
      const models::Value& value = partition.forward[gradient.of];
      EXPECT_TRUE(value.source == models::Source::input || models::is_lora_weight(value.name))
          << value.name;
    }
    EXPECT_EQ(partition.gradients.size(), 1 + 2 * all_targets().size()) << policy.name;
  }
  EXPECT_EQ(models::decoder(tiny_lora(all_targets())).stages[1].programs[0].labels(),
            models::decoder(tiny_llama()).stages[1].programs[0].labels());
}

// --- what is computed

TEST(Lora, EveryPolicyGivesTheBitsOfNone) {
  for (models::Dtype dtype : models::cpu_dtypes())
    for (int64_t micro_batches : {1, 2}) {
      TrainingOptions options{.model = models::decoder(tiny_lora(all_targets(), dtype)),
                              .micro_batches = micro_batches,
                              .clipping_threshold = 0.01};
      Training none = train(options);
      EXPECT_GT(none.results[0].gradient_norm, options.clipping_threshold);
      EXPECT_NE(none.results.front().loss, none.results.back().loss);
      for (const PolicyInfo& policy : policies()) {
        options.policy = policy.name;
        if (policy.name == "custom") options.custom = {{"context", Action::offload}};
        Training other = train(options);
        options.custom.clear();
        EXPECT_EQ(differences(none, other), "") << policy.name;
        for (const Plan& plan : other.plans.plans) {
          EXPECT_EQ(order_faults(plan), std::vector<std::string>{}) << policy.name;
          EXPECT_EQ(placement_faults(plan), std::vector<std::string>{}) << policy.name;
        }
      }
    }
}

// --- variants

models::DecoderConfig with_dropout(models::DecoderConfig config, double probability = 0.3) {
  config.lora.dropout = probability;
  config.lora.dropout_seed = 7;
  return config;
}

models::DecoderConfig with_magnitudes(models::DecoderConfig config) {
  config.lora.has_magnitudes = true;
  return config;
}

// What drops out is drawn again where it is computed again, and magnitudes come of weights alone.
TEST(LoraVariants, EveryPolicyAndHomeGivesTheBitsOfNone) {
  for (models::Dtype dtype : models::cpu_dtypes()) {
    const models::DecoderConfig plain = tiny_lora(all_targets(), dtype);
    const float alone = train({.model = models::decoder(plain)}).results[0].loss;
    for (const models::DecoderConfig& config :
         {with_dropout(plain), with_magnitudes(plain), with_magnitudes(with_dropout(plain))}) {
      TrainingOptions options{.model = models::decoder(config), .micro_batches = 2};
      const Training none = train(options);
      EXPECT_NE(none.results.front().loss, none.results.back().loss);
      if (config.lora.dropout > 0) {
        EXPECT_NE(none.results[1].loss, alone);
      }
      for (const PolicyInfo& policy : policies()) {
        options.policy = policy.name;
        if (policy.name == "custom") options.custom = {{"context", Action::offload}};
        Training other = train(options);
        options.custom.clear();
        EXPECT_EQ(differences(none, other), "") << policy.name;
        for (const Plan& plan : other.plans.plans) {
          EXPECT_EQ(order_faults(plan), std::vector<std::string>{}) << policy.name;
          EXPECT_EQ(placement_faults(plan), std::vector<std::string>{}) << policy.name;
        }
      }
      options.policy = "full";
      options.layout.homes.parameters = MemoryKind::pinned_host;
      options.layout.layers_on_device = 1;
      EXPECT_EQ(differences(none, train(options)), "");
    }
  }
}

// What drops out is kept in the place of what it drops out of, and no mask. Of magnitudes the
// products are kept, which they scale, and their norms, which are few.
TEST(LoraVariants, KeepAsLittleAsTheyCan) {
  auto kept = [](const models::DecoderConfig& config) {
    return residuals(last_layer(models::decoder(config)));
  };
  const models::DecoderConfig plain = tiny_lora();
  const Names of_plain = kept(plain), of_dropout = kept(with_dropout(plain)),
              of_magnitudes = kept(with_magnitudes(plain));
  EXPECT_EQ(minus(of_dropout, of_plain), (Names{"dropout", "dropout_2", "layer_number"}));
  EXPECT_EQ(minus(of_plain, of_dropout), Names{"rms_norm"});
  EXPECT_EQ(minus(of_magnitudes, of_plain),
            (Names{"adapted_norms", "adapted_norms_2", "linear_3", "linear_7"}));
  EXPECT_EQ(minus(of_plain, of_magnitudes), Names{});
}

// Rows are numbered through micro-batches and devices, so that their division changes nothing but
// the order of sums; other rows, layers and modules are other draws.
TEST(LoraVariants, WhatDropsOutIsARowsOwn) {
  models::DecoderConfig config = with_dropout(tiny_lora(all_targets()), 0.5);
  config.batch = 4;
  TrainingOptions options{.model = models::decoder(config), .steps = 2};
  const Training whole = train(options);
  config.batch = 2;
  options.model = models::decoder(config);
  options.micro_batches = 2;
  const Training parts = train(options);
  options.micro_batches = 1;
  const std::vector<Training> replicas =
      train_on({.data = {.size = 2}, .fsdp = {.size = 1}}, options);
  for (size_t i = 0; i < whole.results.size(); ++i) {
    EXPECT_NEAR(parts.results[i].loss, whole.results[i].loss, 2e-5);
    EXPECT_NEAR(parts.results[i].gradient_norm / whole.results[i].gradient_norm, 1, 2e-5);
    EXPECT_NEAR(replicas[0].results[i].gradient_norm / whole.results[i].gradient_norm, 1, 2e-5);
  }
}

// LoRA+: where a step is the gradient times the learning rate, B moves so many times as far.
TEST(LoraVariants, BHasALearningRateOfItsOwn) {
  constexpr double kRatio = 4;
  TrainingOptions options{
      .model = models::decoder(tiny_lora()), .steps = 1, .clipping_threshold = 0};
  options.optimizers = {models::sgd({})};
  const std::vector<State> states =
      trainer::states_of(options.optimizers[0], models::StateFormat::float32);
  options.layout.optimizers = {{.states = states}};
  auto moved = [&](const LayoutOptions& layout_options) {
    const Training training = train(options);
    const ParameterLayout layout = lay_out(options.model, layout_options);
    std::map<std::string, std::vector<float>> weights;
    for (const auto& [name, location] : layout.by_name) {
      const Bucket& bucket = layout.bucket(location);
      const Parameter& parameter = layout.parameter(location);
      if (bucket.trainable == models::Trainable::no) continue;
      const auto* values = reinterpret_cast<const float*>(
          training.state.at(argument_name(bucket, Copy::compute)).data());
      weights[name] = std::vector<float>(values + parameter.offset,
                                         values + parameter.offset + parameter.type.shape.count());
    }
    return weights;
  };
  const auto plain = moved(options.layout);
  options.optimizers.insert(options.optimizers.begin(), models::sgd({}));
  options.optimizers[0].learning_rate_ratio = kRatio;
  options.layout.optimizers = {
      {.states = states, .updates = [](const Parameter& p) { return models::is_lora_b(p.name); }},
      {.states = states}};
  auto faster = moved(options.layout);
  ASSERT_EQ(faster.size(), plain.size());
  for (auto& [name, values] : faster) {
    if (models::is_lora_b(name)) {
      EXPECT_NE(values, plain.at(name)) << name;
      for (float& value : values) value /= static_cast<float>(kRatio);
    }
    EXPECT_EQ(values, plain.at(name)) << name;
  }
}

// --- where layers live

TEST(LayersOnDevice, AreSpreadEvenly) {
  auto chosen = [](int layers, int count) {
    std::string text;
    for (int layer = 0; layer < layers; ++layer)
      text += is_among_spread(layer, layers, count) ? 'x' : '.';
    return text;
  };
  EXPECT_EQ(chosen(8, 0), "........");
  EXPECT_EQ(chosen(8, 2), "...x...x");
  EXPECT_EQ(chosen(8, 3), "..x..x.x");
  EXPECT_EQ(chosen(8, 8), "xxxxxxxx");
}

TEST(LayersOnDevice, GiveTheSameBitsInMemoryThatIsPredicted) {
  models::DecoderConfig config = tiny_lora(all_targets());
  config.layers = 5;
  TrainingOptions options{.model = models::decoder(config), .policy = "full"};
  const Training on_device = train(options);
  options.layout.homes.parameters = MemoryKind::pinned_host;
  int64_t host_before = INT64_MAX;
  for (int layers : {0, 2, 5}) {
    options.layout.layers_on_device = layers;
    Training run = train(options);
    EXPECT_EQ(differences(on_device, run), "") << layers;
    const Plan& plan_of_step = run.plans.plans[0];
    const int64_t on_host = analyze(plan_of_step, MemoryKind::pinned_host).peak_bytes;
    EXPECT_LT(on_host, host_before) << layers;
    host_before = on_host;
    for (MemoryKind kind : kMemoryKinds) {
      EXPECT_EQ(run.allocated_bytes[kind], analyze(plan_of_step, kind).peak_bytes)
          << layers << name(kind);
      EXPECT_EQ(run.ledger.peak_bytes(kind), analyze(plan_of_step, kind).live_bytes)
          << layers << name(kind);
    }
    for (const Plan& plan : run.plans.plans) {
      EXPECT_EQ(order_faults(plan), std::vector<std::string>{}) << layers;
      EXPECT_EQ(placement_faults(plan), std::vector<std::string>{}) << layers;
    }
  }
}

// Of single experts: nothing else moves, by decay neither, and the norm is that of their gradients.
TEST(PartlyTrained, SingleExpertsMove) {
  models::DecoderConfig config = tiny_llama();
  config.family = &models::kMixtral;
  config.experts = 4;
  config.experts_per_token = 2;
  auto trained = [&](const std::set<std::string>& numbers) {
    TrainingOptions options{.model = models::decoder(config), .steps = 1, .clipping_threshold = 0};
    set_trainable(options.model, [&](const std::string& name) {
      const size_t at = name.find(".experts.");
      return at != name.npos && numbers.contains(name.substr(at + 9, 1));
    });
    return options;
  };
  const TrainingOptions one = trained({"1"}), two = trained({"2"}), both = trained({"1", "2"});
  const Training after = train(one);
  EXPECT_GT(after.results[0].gradient_norm, 0);
  EXPECT_NEAR(train(both).results[0].gradient_norm,
              std::hypot(after.results[0].gradient_norm, train(two).results[0].gradient_norm),
              1e-6 * after.results[0].gradient_norm);
  EXPECT_EQ(count_parameters(one.model).trainable,
            config.layers * 3 * config.width * expert_width(config));
  TrainingOptions none = one;
  none.steps = 0;
  const Training before = train(none);
  const ParameterLayout layout = lay_out(one.model, one.layout);
  for (const Bucket& bucket : layout.buckets) {
    const std::string name = argument_name(bucket, Copy::compute);
    const auto *const old = reinterpret_cast<const float*>(before.state.at(name).data()),
                      *const now = reinterpret_cast<const float*>(after.state.at(name).data());
    for (const Parameter& parameter : bucket.parameters)
      for (int64_t i = 0; i < parameter.type.shape.count(); ++i) {
        const int64_t at = parameter.offset + i;
        const bool trains = bucket.trainable == models::Trainable::yes &&
                            i / (parameter.type.shape.count() / config.experts) == 1;
        ASSERT_EQ(now[at] != old[at], trains) << parameter.name << " " << i;
      }
  }
}

// Wherever parameters, gradients and moments live.
TEST(Lora, HomesChangeNoBit) {
  TrainingOptions options{.model = models::decoder(tiny_lora()), .policy = "full"};
  Training device = train(options);
  constexpr MemoryKind kHost = MemoryKind::pinned_host;
  options.layout.homes = {kHost, kHost, kHost};
  EXPECT_EQ(differences(device, train(options)), "");
}

// Bits of every bucket: adapters move, the base stays, after three steps.
TEST(Lora, TrainingMovesAdaptersOnly) {
  for (models::Dtype dtype : models::cpu_dtypes()) {
    TrainingOptions options{.model = models::decoder(tiny_lora({"q_proj", "down_proj"}, dtype))};
    Training before = train({.model = options.model, .steps = 0}), after = train(options);
    int frozen = 0, moved = 0;
    for (const auto& [name, contents] : after.state) {
      if (name.find(".frozen.") != std::string::npos) {
        EXPECT_EQ(contents, before.state.at(name)) << name;
        EXPECT_TRUE(name.ends_with(".frozen.compute")) << name;
        ++frozen;
      } else if (name.ends_with(".compute")) {
        EXPECT_NE(contents, before.state.at(name)) << name;
        ++moved;
      }
    }
    int layers = tiny_llama().layers;
    EXPECT_EQ(frozen, layers + 2);  // and what stands before and behind them
    EXPECT_EQ(moved, layers);
  }
}

// A label that the first layers' backward passes do not read is offloaded by the others.
TEST(PartlyTrained, OffloadsWhereSomethingIsRead) {
  models::Model model = masked(tiny_llama(), "layers.1.");
  TrainingOptions options{.model = model};
  Training none = train(options);
  options.policy = "custom";
  options.custom = {{"context", Action::offload}};
  options.offload_layers = tiny_llama().layers;
  Training offloaded = train(options);
  EXPECT_EQ(differences(none, offloaded), "");
  auto moves = [](const Training& training) {
    return std::ranges::count(training.plans.plans[0].instructions, Lane::device_to_host,
                              &Instruction::lane);
  };
  // Of layers 1 and 2 out of three, with its log-sum-exp.
  EXPECT_EQ(moves(offloaded) - moves(none), 2 * 2);
  options.model = masked(tiny_llama(), "lm_head");
  EXPECT_THROW(train(options), ConfigError);
}

TEST(PartlyTrained, GradientsAreThoseOfFullTraining) {
  models::DecoderConfig config = tiny_llama();
  std::vector<data::Batch> batches;
  data::BatchSource source = data::synthetic_batches(
      {config.batch, config.length}, static_cast<int32_t>(config.vocabulary), kDataSeed);
  for (int i = 0; i < 2; ++i) batches.push_back(source(i));
  PassResult all = run_pass({.model = models::decoder(config)}, batches);
  for (const char* part : {"self_attn", "layers.1.", "layers.0.mlp.up", "embed", "lm_head"})
    for (const char* policy : {"none", "full"}) {
      SCOPED_TRACE(std::string(part) + " " + policy);
      PassResult some = run_pass({.model = masked(config, part), .policy = policy}, batches);
      EXPECT_EQ(some.loss, all.loss);
      EXPECT_FALSE(some.gradients.empty());
      EXPECT_LT(some.gradients.size(), all.gradients.size());
      for (const auto& [name, gradient] : some.gradients) {
        EXPECT_NE(name.find(part), name.npos);
        EXPECT_EQ(gradient, all.gradients.at(name)) << name;
      }
    }
}

// --- memory

TEST(Lora, MemoryIsAsPredicted) {
  for (const char* policy : {"none", "full", "minimal_offloaded"}) {
    models::Model models[] = {models::decoder(tiny_lora()), masked(tiny_llama(), "layers.1."),
                              models::decoder(tiny_llama())};
    std::vector<int64_t> peaks;
    for (const models::Model& model : models) {
      Training run = train({.model = model, .policy = policy, .steps = 1});
      for (MemoryKind kind : kMemoryKinds) {
        int64_t predicted = analyze(run.plans.plans[0], kind).peak_bytes;
        EXPECT_EQ(run.allocated_bytes[kind], predicted) << policy << name(kind);
        EXPECT_EQ(run.ledger.peak_bytes(kind), analyze(run.plans.plans[0], kind).live_bytes)
            << policy << name(kind);
      }
      peaks.push_back(analyze(run.plans.plans[0], MemoryKind::device).peak_bytes);
    }
    EXPECT_LT(peaks[0], peaks[1]) << policy;
    EXPECT_LT(peaks[1], peaks[2]) << policy;
  }
}

}  // namespace
}  // namespace longshore::offload
