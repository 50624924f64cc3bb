// Models whose frozen matrices are stored in fewer bits: what is computed, kept and predicted.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "longshore/data/rows/batches.h"
#include "longshore/models/families/quantize_weights.h"
#include "longshore/offload/plan/memory_analysis.h"
#include "longshore/offload/policy/partition.h"
#include "tests/models/cpu_dtypes.h"
#include "tests/offload/plan_checks.h"
#include "tests/offload/training.h"

namespace longshore::offload {
namespace {

using models::Quantization;
using enum QuantizedFormat;

models::DecoderConfig tiny_lora(const models::Family& family = models::kLlama,
                                models::Dtype dtype = models::Dtype::float32) {
  models::DecoderConfig config = tiny_llama(dtype);
  config.family = &family;
  if (!family.layer.experts.gate.empty()) {
    config.experts = 4;
    config.experts_per_token = 2;
    config.activation_limit = 7;
  }
  config.lora = {.rank = 3, .alpha = 8, .targets = {"q_proj", "v_proj", "down_proj"}};
  if (!family.layer.fused.empty()) config.lora.targets = {"qkv_proj", "down_proj"};
  if (config.experts > 0) config.lora.targets = {"o_proj"};
  return config;
}

models::Model quantized(const models::DecoderConfig& config, const Quantization& how) {
  models::Model model = models::decoder(config);
  quantize_weights(model, [&](const std::string&) { return how; });
  return model;
}

// Every format's numbers are another's bits; those of float32 are the bits themselves.
TEST(QuantizedWeights, OfFloat32AreTheModelItself) {
  for (const models::Family* family : {&models::kLlama, &models::kPhi3, &models::kMixtral,
                                       &models::kGptOss, &models::kLlama4Text}) {
    SCOPED_TRACE(family->name);
    const models::DecoderConfig config = tiny_lora(*family);
    const Training plain = train({.model = models::decoder(config)});
    const Training stored = train({.model = quantized(config, {.format = float32})});
    ASSERT_EQ(plain.results.size(), stored.results.size());
    EXPECT_NE(plain.results.front().loss, plain.results.back().loss);
    for (size_t i = 0; i < plain.results.size(); ++i) {
      EXPECT_EQ(plain.results[i].loss, stored.results[i].loss);
      EXPECT_EQ(plain.results[i].gradient_norm, stored.results[i].gradient_norm);
    }
    int same = 0, bytes = 0;
    for (const auto& [name, contents] : stored.state) {
      if (name.ends_with(".quantized.compute"))
        ++bytes;
      else if (!name.ends_with(".frozen.compute"))
        same += plain.state.at(name) == contents ? 1 : 0;
      else
        EXPECT_LE(contents.size(), plain.state.at(name).size());
    }
    EXPECT_EQ(bytes, config.layers);
    EXPECT_EQ(same + 2 * config.layers + 2, std::ssize(stored.state));
  }
}

TEST(QuantizedWeights, EveryPolicyAndHomeGivesTheBitsOfNone) {
  for (models::Dtype dtype : models::cpu_dtypes())
    for (const Quantization& how : {Quantization{.format = nf4, .has_nested_scales = true},
                                    {.format = fp8},
                                    {.format = mxfp4},
                                    {.format = int8, .rounded_to = RoundedTo::bfloat16}}) {
      TrainingOptions options{.model = quantized(tiny_lora(models::kLlama, dtype), how),
                              .micro_batches = 2};
      const Training none = train(options);
      EXPECT_NE(none.results.front().loss, none.results.back().loss);
      auto expect_same = [&](const std::string& what) {
        const Training other = train(options);
        EXPECT_EQ(differences(none, other), "") << what;
        for (const Plan& plan : other.plans.plans) {
          EXPECT_EQ(order_faults(plan), std::vector<std::string>{}) << what;
          EXPECT_EQ(placement_faults(plan), std::vector<std::string>{}) << what;
        }
      };
      for (const PolicyInfo& policy : policies()) {
        if (how.format != nf4 && policy.name != "full") continue;
        options.policy = policy.name;
        if (policy.name == "custom") options.custom = {{"context", Action::offload}};
        expect_same(policy.name);
        options.custom.clear();
      }
      options.layout.homes.parameters = MemoryKind::pinned_host;
      for (const char* policy : {"none", "full"}) {
        options.policy = policy;
        expect_same(std::string(policy) + ", parameters on the host");
      }
    }
}

// A policy that keeps everything keeps no numbers; each product has its own, made just before it.
TEST(QuantizedWeights, NumbersLiveForOneProduct) {
  const models::Model model = quantized(tiny_lora(), {.format = nf4});
  const models::Program& program = model.stages[1].programs[0];
  auto expect_own = [](const models::Program& made, const std::string& what) {
    int count = 0;
    for (size_t i = 0; i < made.nodes.size(); ++i) {
      if (std::string(made.nodes[i].op->name) != "dequantize") continue;
      ++count;
      const models::ValueId numbers = made.nodes[i].out[0];
      const auto readers = std::ranges::count_if(made.nodes, [&](const models::Node& node) {
        return std::ranges::find(node.in, numbers) != node.in.end();
      });
      EXPECT_EQ(readers, 1) << what;
      const std::vector<models::ValueId>& next = made.nodes[i + 1].in;
      EXPECT_NE(std::ranges::find(next, numbers), next.end()) << what;
    }
    return count;
  };
  for (const PolicyInfo& info : policies()) {
    const Partition made =
        partition(program, models::backward(program), make_policy(info.name, {}, program));
    for (const Residual& residual : made.residuals)
      EXPECT_EQ(program[residual.value].name.find(".numbers"), std::string::npos) << info.name;
    EXPECT_EQ(expect_own(made.forward, info.name + ", forward"), 7);
    EXPECT_GE(expect_own(made.backward, info.name + ", backward"), 4);
  }
}

TEST(QuantizedWeights, MemoryIsAsPredicted) {
  for (MemoryKind home : {MemoryKind::device, MemoryKind::pinned_host})
    for (const char* policy : {"none", "full", "minimal_offloaded"}) {
      std::vector<int64_t> peaks;
      for (const models::Model& model :
           {quantized(tiny_lora(), {.format = nf4, .has_nested_scales = true}),
            quantized(tiny_lora(), {.format = fp8}), models::decoder(tiny_lora())}) {
        TrainingOptions options{.model = model, .policy = policy, .steps = 1};
        options.layout.homes.parameters = home;
        Training run = train(options);
        int64_t both = 0;
        for (MemoryKind kind : kMemoryKinds) {
          const int64_t predicted = analyze(run.plans.plans[0], kind).peak_bytes;
          EXPECT_EQ(run.allocated_bytes[kind], predicted) << policy << name(kind);
          EXPECT_EQ(run.ledger.peak_bytes(kind), analyze(run.plans.plans[0], kind).live_bytes)
              << policy << name(kind);
          both += predicted;
        }
        peaks.push_back(both);
      }
      EXPECT_LT(peaks[0], peaks[1]) << policy;
      EXPECT_LT(peaks[1], peaks[2]) << policy;
    }
}

// Devices hold parts of the bytes, wherever blocks begin, and gather them.
TEST(QuantizedWeights, AreDividedAsTheirBytes) {
  const DeviceMesh mesh{.data = {.size = 1}, .fsdp = {.size = 2}};
  for (MemoryKind home : {MemoryKind::device, MemoryKind::pinned_host}) {
    TrainingOptions options{
        .model = quantized(tiny_lora(), {.format = nf4, .has_nested_scales = true}),
        .policy = "full",
        .micro_batches = 2};
    const Training alone = train(options);
    options.micro_batches = 1;
    options.layout.homes.parameters = home;
    const std::vector<Training> ranks = train_on(mesh, options);
    for (size_t i = 0; i < alone.results.size(); ++i)
      for (const Training& rank : ranks)
        EXPECT_NEAR(rank.results[i].loss, alone.results[i].loss, 1e-6 * alone.results[i].loss);
    int divided = 0;
    for (const auto& [name, bytes] : alone.state) {
      if (!name.ends_with(".quantized.compute")) continue;
      std::vector<std::byte> together = ranks[0].state.at(name);
      const std::vector<std::byte>& second = ranks[1].state.at(name);
      EXPECT_EQ(together.size(), second.size());
      together.insert(together.end(), second.begin(), second.end());
      ASSERT_GE(together.size(), bytes.size());
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), together.begin())) << name;
      ++divided;
    }
    EXPECT_EQ(divided, tiny_llama().layers);
  }
}

TEST(QuantizedWeights, AreCountedAsTheirNumbers) {
  const models::DecoderConfig config = tiny_lora();
  const auto stored = count_parameters(quantized(config, {.format = nf4})),
             plain = count_parameters(models::decoder(config));
  EXPECT_EQ(stored.all, plain.all);
  EXPECT_EQ(stored.trainable, plain.trainable);
}

// Gradients of what trains are those of the reference's plain composition over the same numbers.
TEST(QuantizedWeights, GradientsAreTheReferences) {
  for (const models::Family* family :
       {&models::kLlama, &models::kPhi3, &models::kMixtral, &models::kGptOss}) {
    const models::DecoderConfig config = tiny_lora(*family);
    const data::BatchSource source = data::synthetic_batches(
        {config.batch, config.length}, static_cast<int32_t>(config.vocabulary), kDataSeed);
    const std::vector<data::Batch> batches{source(0)};
    for (QuantizedFormat format : {nf4, fp4, mxfp4, int8, fp8}) {
      const models::Model model = quantized(config, {.format = format});
      const PassResult found = run_pass({.model = model, .policy = "full"}, batches),
                       expected =
                           run_pass({.model = model, .target = models::Target::reference}, batches);
      EXPECT_NEAR(found.loss, expected.loss, 1e-5 * expected.loss) << name(format);
      ASSERT_EQ(found.gradients.size(), expected.gradients.size());
      for (const auto& [parameter, gradient] : found.gradients) {
        const std::vector<float>& other = expected.gradients.at(parameter);
        float largest = 0, difference = 0;
        for (size_t i = 0; i < gradient.size(); ++i) {
          largest = std::max(largest, std::abs(other[i]));
          difference = std::max(difference, std::abs(gradient[i] - other[i]));
        }
        EXPECT_LE(difference, 2e-5f * largest) << family->name << name(format) << parameter;
      }
    }
  }
}

}  // namespace
}  // namespace longshore::offload
