// Depths of prefetch, and how well a deferred update hides, on the virtual clock.
#include "longshore/trainer/step/prefetch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "longshore/offload/execution/simulate.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/training.h"

namespace longshore::trainer {
namespace {

using offload::Hardware;
using offload::Homes;
using offload::lay_out;
using offload::MemoryKind;

constexpr MemoryKind kHost = MemoryKind::pinned_host;

struct Case {
  std::string policy;
  Homes homes;
  offload::Lane lane = offload::Lane::compute;
  double clipping_threshold = 1;
};

const std::vector<Case> kCases{{"qkv_proj_offloaded", {}},
                               {"minimal_offloaded", {}},
                               {"full", {.optimizer = kHost}},
                               {"full", {.optimizer = kHost}, offload::Lane::compute, 0},
                               {"full", {.optimizer = kHost}, offload::Lane::host_compute},
                               {"full", {.parameters = kHost}},
                               {"minimal_offloaded", {kHost, kHost, kHost}}};

models::DecoderConfig stack(int layers) {
  models::DecoderConfig config = offload::tiny_llama();
  config.length = 64;
  config.width = 128;
  config.mlp_width = 256;
  config.head_dim = 32;
  config.layers = layers;
  return config;
}

StepOptions options_of(const Case& c, const models::Model& model) {
  return {.policy = offload::make_policy(c.policy, {}, model.stages[1].programs[0]),
          .optimizer = OptimizerOptions{.optimizers = {models::adamw({0.9, 0.95, 1e-8, 0.1})},
                                        .clipping_threshold = c.clipping_threshold,
                                        .lane = c.lane,
                                        .chunk = 1 << 14}};
}

double seconds(const offload::Plan& plan, const Hardware& hardware) {
  return offload::overlap(offload::simulate({&plan}, hardware)).total;
}

// From a link that hides behind a fraction of a layer to one that no depth can hide.
TEST(Prefetch, IsAsGoodAsAnyDepth) {
  models::Model model = models::decoder(stack(12));
  std::vector<double> chosen_depths;
  double worst = 0;
  for (double link : {1e9, 3e7, 1e7, 3e6, 1e5})
    for (const Case& c : kCases) {
      Hardware rates =
          offload::uniform_hardware(models::Target::cuda, {.flops_per_second = 1e9,
                                                           .device_bytes_per_second = 1e9,
                                                           .link_bytes_per_second = link,
                                                           .host_flops_per_second = 1e9,
                                                           .host_bytes_per_second = 1e9});
      StepOptions options = options_of(c, model);
      double chosen =
          choose_prefetch_layers(model, {.homes = c.homes, .optimizers = offload::adamw_states()},
                                 options, models::Target::cuda, rates);
      auto step = [&](double depth) {
        options.transfers.prefetch_layers = depth;
        offload::ParameterLayout layout =
            lay_out(model, {.homes = c.homes, .optimizers = offload::adamw_states()});
        return seconds(plan_step(model, layout, options, models::Target::cuda).plans[0], rates);
      };
      double least = step(chosen), now = least;
      for (double depth : {0.0, 0.25, 0.5, 1.0, 2.0, 4.0}) least = std::min(least, step(depth));
      std::printf("link %.0e B/s, %s: %.2f layers, %.2f %% over the best of all depths\n", link,
                  c.policy.c_str(), chosen, 100 * (now / least - 1));
      EXPECT_LE(now, 1.05 * least);
      worst = std::max(worst, now / least);
      chosen_depths.push_back(chosen);
    }
  RecordProperty("worst_over_best", std::to_string(worst));
  EXPECT_LT(*std::min_element(chosen_depths.begin(), chosen_depths.end()), 0.5);
  EXPECT_GE(*std::max_element(chosen_depths.begin(), chosen_depths.end()), 1);
}

TEST(Prefetch, AllLayersThatAreNamedAreAllLayers) {
  const models::Model model = models::decoder(stack(12));
  const Hardware rates = offload::nominal_hardware(models::Target::cuda);
  StepOptions options = options_of(kCases[0], model);
  const double all = choose_prefetch_layers(model, {.optimizers = offload::adamw_states()}, options,
                                            models::Target::cuda, rates);
  options.policy.all.offload_layers = 12;
  EXPECT_EQ(choose_prefetch_layers(model, {.optimizers = offload::adamw_states()}, options,
                                   models::Target::cuda, rates),
            all);
}

// What streaming the states takes on its own, and what of it a step still shows: deferred into the
// forward pass, or without clipping in the backward pass.
TEST(PacedUpdate, HidesBehindLayers) {
  models::Model model = models::decoder(stack(12));
  auto plans = [&](const Homes& homes, double threshold) {
    StepOptions options =
        options_of({.policy = "full", .homes = homes, .clipping_threshold = threshold}, model);
    return plan_step(model, lay_out(model, {.homes = homes, .optimizers = offload::adamw_states()}),
                     options, models::Target::cuda);
  };
  for (auto [homes, link] :
       {std::pair{Homes{.optimizer = kHost}, 5e7}, std::pair{Homes{kHost, kHost, kHost}, 2e8}}) {
    Hardware rates = offload::uniform_hardware(
        models::Target::cuda, {.flops_per_second = 1e9, .link_bytes_per_second = link});
    double alone = seconds(*plans(homes, 1).flush, rates);
    for (double threshold : {1.0, 0.0}) {
      double step = seconds(plans(homes, threshold).plans[0], rates);
      double exposed = step - seconds(plans({}, threshold).plans[0], rates);
      std::printf("threshold %.0f: alone %.4f s, exposed %.4f s of a step of %.4f s\n", threshold,
                  alone, exposed, step);
      EXPECT_LT(exposed, 0.2 * alone);
    }
  }
  EXPECT_FALSE(plans({}, 1).flush);
  EXPECT_FALSE(plans({.optimizer = kHost}, 0).flush);
}

}  // namespace
}  // namespace longshore::trainer
