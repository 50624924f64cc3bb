// A model with everything that stages can do, through every pass, against LibTorch's autograd on a
// plain composition in float64.
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "longshore/models/ops/kernels/aten.h"
#include "tests/models/autograd.h"
#include "tests/models/plain.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/tensors.h"
#include "tests/offload/training.h"

namespace longshore::offload {
namespace {

using models::Tensors;
namespace plain = models::plain;

at::Tensor ids_of(const std::vector<int32_t>& ids, const ToySizes& s) {
  return ids_tensor(ids, s.batch, s.length);
}

// As write_toy_inputs() writes them.
at::Tensor toy_ids(int64_t vocabulary, const ToySizes& s) {
  std::vector<int32_t> ids(static_cast<size_t>(s.batch * s.length));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>((7 * i + 3) % static_cast<size_t>(vocabulary));
  return ids_of(ids, s);
}

struct Losses {
  at::Tensor loss, auxiliary_loss;
};

Losses plain_toy(const Tensors& w, const data::Batch& batch, const ToySizes& s) {
  at::Tensor x = plain::embedding(toy_ids(s.patch_vocabulary, s), w.at("patch_table"));
  for (int layer = 0; layer < 3; ++layer) {
    auto weight = [&](const char* name) {
      return w.at("tower." + std::to_string(layer) + "." + name);
    };
    at::Tensor act =
        plain::swiglu(plain::linear(x, weight("gate")), plain::linear(x, weight("up")));
    x = x + plain::linear(act, weight("down"));
  }
  at::Tensor memory = plain::linear(x, w.at("projector"));

  at::Tensor hints = toy_ids(s.hint_vocabulary, s);
  auto table =
      plain::rope_table(ids_of(batch["positions"], s), s.head_dim, s.rope_base, at::kDouble);
  x = plain::embedding(ids_of(batch["tokens"], s), w.at("embedding"));
  at::Tensor auxiliary_loss = at::zeros({}, at::kDouble);
  for (int layer = 0; layer < 3; ++layer) {
    auto weight = [&](const char* name) {
      return w.at("decoder." + std::to_string(layer) + "." + name);
    };
    at::Tensor n = plain::rms_norm(x, weight("norm"), s.norm_epsilon);
    at::Tensor read = layer == 1 ? n : n + memory;
    at::Tensor context = plain::attention(plain::rope(plain::linear(n, weight("q")), table),
                                          plain::rope(plain::linear(read, weight("k")), table),
                                          plain::linear(read, weight("v")), s.head_dim);
    at::Tensor residual = x + plain::linear(context, weight("o"));
    auxiliary_loss = auxiliary_loss + plain::cross_entropy(residual, weight("hint"), hints);
    at::Tensor act = plain::swiglu(plain::linear(residual, weight("gate")),
                                   plain::linear(residual, weight("up")));
    x = residual + plain::linear(act, weight("down"));
  }
  at::Tensor n = plain::rms_norm(x, w.at("final_norm"), s.norm_epsilon);
  return {plain::cross_entropy(n, w.at("embedding"), ids_of(batch["targets"], s)), auxiliary_loss};
}

data::Batch toy_batch(int64_t index, const ToySizes& s) {
  return data::synthetic_batches({s.batch, s.length}, static_cast<int32_t>(s.vocabulary),
                                 kDataSeed)(index);
}

constexpr double kLossFactor = 1. / 16, kAuxiliaryFactor = 1. / 8;

// Also over two micro-batches, whose gradients add up.
void expect_autograd(models::Target target, const char* policy, int micro_batches) {
  ToySizes sizes;
  models::Model model = toy(sizes);
  std::vector<data::Batch> batches;
  for (int i = 0; i < micro_batches; ++i) batches.push_back(toy_batch(i, sizes));
  PassResult found = run_pass({.model = model,
                               .policy = policy,
                               .target = target,
                               .loss_gradient = kLossFactor,
                               .auxiliary_loss_gradient = kAuxiliaryFactor},
                              batches);

  Tensors leaves = models::as_leaves(initial_tensors(model, at::kDouble));
  std::vector<at::Tensor> outputs, cotangents;
  double loss = 0, auxiliary_loss = 0;
  for (const data::Batch& batch : batches) {
    Losses losses = plain_toy(leaves, batch, sizes);
    loss += losses.loss.item<double>();
    auxiliary_loss += losses.auxiliary_loss.item<double>();
    outputs.insert(outputs.end(), {losses.loss, losses.auxiliary_loss});
    cotangents.push_back(at::ones({}, at::kDouble) * kLossFactor);
    cotangents.push_back(at::ones({}, at::kDouble) * kAuxiliaryFactor);
  }
  Tensors expected = models::autograd(outputs, cotangents, leaves);

  EXPECT_NEAR(found.loss / loss, 1, 1e-6);
  EXPECT_NEAR(found.auxiliary_loss / auxiliary_loss, 1, 1e-6);
  double worst = 0;
  for (const auto& [name, gradient] : found.gradients) {
    at::Tensor ours =
        float_tensor(gradient, {static_cast<int64_t>(gradient.size())}).to(at::kDouble);
    at::Tensor theirs = expected.at(name).flatten();
    EXPECT_GT(theirs.norm().item<double>(), 1e-4) << name << ": a gradient of nothing";
    double difference = ((ours - theirs).norm() / theirs.norm()).item<double>();
    EXPECT_LT(difference, 1e-5) << name;
    worst = std::max(worst, difference);
  }
  // Of the tower and the patches autograd would have gradients too; they are frozen.
  int trained = 0;
  for (const auto& [name, gradient] : expected)
    trained += name != "patch_table" && !name.starts_with("tower.");
  EXPECT_EQ(found.gradients.size(), static_cast<size_t>(trained));
  std::printf("%s, %s, %d micro-batches: worst gradient differs by %.1e\n",
              target == models::Target::cpu ? "cpu" : "reference", policy, micro_batches, worst);
}

TEST(Toy, GradientsAreAutograds) {
  for (models::Target target : {models::Target::cpu, models::Target::reference})
    for (const char* policy : {"none", "full", "save_qkv_proj"})
      for (int micro_batches : {1, 2}) expect_autograd(target, policy, micro_batches);
}

TEST(Toy, FrozenWeightsStayAndTheOthersMove) {
  models::Model model = toy();
  ParameterLayout layout = lay_out(model, {.optimizers = adamw_states()});
  Training trained = train({.model = model});
  auto start = initial_weights(layout);
  for (const Bucket& bucket : layout.buckets) {
    const auto& contents = trained.state.at(argument_name(bucket, Copy::compute));
    const float* now = reinterpret_cast<const float*>(contents.data());
    for (const Parameter& parameter : bucket.parameters) {
      const std::vector<float>& before = start.at(parameter.name);
      bool stays = std::equal(before.begin(), before.end(), now + parameter.offset);
      EXPECT_EQ(stays, bucket.trainable == models::Trainable::no) << parameter.name;
    }
    EXPECT_EQ(trained.state.count(bucket.name + ".first_moment"),
              bucket.trainable == models::Trainable::yes);
  }
}

// The first layer of a scan whose carry needs no gradient is a kind of its own, with the same
// gradients of its weights.
TEST(Toy, FrozenEmbeddingsChangeNoOtherGradient) {
  models::DecoderConfig config = tiny_llama();
  models::Model all = models::decoder(config), frozen = all;
  models::Program& embed = frozen.stages[stage_index(frozen, "embed")].programs[0];
  embed = with_frozen(embed, {"model.embed_tokens.weight"});
  models::connect(frozen);
  const models::Stage& decoder = frozen.stages[stage_index(frozen, "decoder")];
  ASSERT_EQ(decoder.programs.size(), 2u);
  ASSERT_NE(decoder.layers[0], decoder.layers[1]);

  std::vector<data::Batch> batches{data::synthetic_batches(
      {config.batch, config.length}, static_cast<int32_t>(config.vocabulary), kDataSeed)(0)};
  for (const char* policy : {"none", "full", "save_qkv_proj"}) {
    PassResult a = run_pass({.model = all, .policy = policy}, batches);
    PassResult b = run_pass({.model = frozen, .policy = policy}, batches);
    EXPECT_EQ(a.loss, b.loss);
    a.gradients.erase("model.embed_tokens.weight");
    EXPECT_EQ(a.gradients, b.gradients) << policy;
  }
}

}  // namespace
}  // namespace longshore::offload
