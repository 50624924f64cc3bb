// A model of one's own around a stage of a known family: a Llama's layers, read from a config.json,
// that predict the next point of a curve instead of the next token.
#include <longshore/models/families/decoder.h>
#include <longshore/models/families/new_weights.h>
#include <longshore/models/hf/config.h>
#include <longshore/models/ir/stages.h>
#include <longshore/models/ir/trace.h>
#include <longshore/models/ops/linear/linear.h>
#include <longshore/models/ops/mean_square_error.h>
#include <longshore/models/ops/rope/rope.h>
#include <longshore/offload/backends/cpu_backend.h>
#include <longshore/offload/execution/value_and_grad.h>
#include <longshore/trainer/step/trainer.h>
#include <longshore/trainer/weights/initialize.h>

#include <cmath>
#include <cstdio>

using namespace longshore;
using namespace longshore::models;

namespace {

constexpr int64_t kBatch = 4, kLength = 64, kNumbers = 2;  // points have two numbers

constexpr const char* kConfig = R"({
  "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 32, "rms_norm_eps": 1e-5,
  "max_position_embeddings": 64, "rope_theta": 10000.0, "tie_word_embeddings": false
})";

// In the place of the Llama's `embed`: points to the first carry, and the tables of rotations.
Program points(const DecoderConfig& c) {
  Trace t("points");
  Var x = t.batch("x", {{kBatch, kLength, kNumbers}});
  Var positions = t.batch("positions", {{kBatch, kLength}, Dtype::int32});
  RopeTable table = rope_table(positions, c.head_dim, c.rope_base);
  t.output(linear(x, t.weight("points.in", {{c.width, kNumbers}}, kLinear)));
  t.output(table.cos);
  t.output(table.sin);
  return t.finish();
}

// In the place of its `head`: the next point, and how far off it is.
Program next_point(const DecoderConfig& c) {
  Trace t("next_point");
  Var x = t.input("x", {{kBatch, kLength, c.width}});
  Var next = linear(x, t.weight("points.out", {{kNumbers, c.width}}, kLinear));
  t.output(mean_square_error(next, t.batch("next", next.type())), OutputRole::loss);
  return t.finish();
}

Model curve_model() {
  DecoderConfig config = parse_hf_config(kConfig);
  config.batch = kBatch;
  config.length = kLength;
  const Model llama = decoder(config);
  // The stage reads outputs 0, 1 and 2 of stage 0, which are the carry and the tables here too.
  return connected("curves", {run_once(points(config)), stage_named(llama, "decoder"),
                              run_once(next_point(config), {{1, 0}})});
}

// Points on circles, each row at a speed of its own, and the points after them.
template <class F>  // ValueAndGrad or Trainer
void set_circles(F& f) {
  std::vector<float> x, next;
  std::vector<int32_t> positions;
  for (int row = 0; row < kBatch; ++row)
    for (int i = 0; i < kLength; ++i) {
      const double speed = 0.1 * (row + 1);
      for (auto [values, at] : {std::pair(&x, i), std::pair(&next, i + 1)}) {
        values->push_back(static_cast<float>(std::cos(speed * at)));
        values->push_back(static_cast<float>(std::sin(speed * at)));
      }
      positions.push_back(i);
    }
  f.set_batch("x", x);
  f.set_batch("next", next);
  f.set_batch("positions", positions);
}

}  // namespace

int main() {
  const Model model = curve_model();
  std::printf("%lld parameters\n", static_cast<long long>(count_parameters(model).all));
  offload::Runtime runtime{offload::make_cpu_backend()};

  // Value and gradients, from first values as the weights' Init says: the same for the same seed.
  offload::ValueAndGrad f(runtime, model);
  trainer::initialize(f.layout(), 1, f.arguments());
  set_circles(f);
  const double value = f();
  double squares = 0;
  for (float number : f.gradient("model.layers.0.self_attn.q_proj.weight"))
    squares += number * number;
  std::printf("value %.4f, norm of a gradient %.2e\n", value, std::sqrt(squares));

  // Steps of AdamW, its states in host memory, activations under a named policy.
  const Stage& layers = stage_named(model, "decoder");
  trainer::Trainer trainer(
      runtime, model,
      {.policy = offload::make_policy("qkv_proj_offloaded", {}, layers.programs),
       .homes = {.optimizer = offload::MemoryKind::pinned_host},
       .optimizer = adamw({.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8}),
       .clipping_threshold = 1,
       .seed = 1});
  set_circles(trainer);
  for (int step = 0; step <= 60; ++step) {
    const trainer::StepResult result = trainer.step(3e-3);
    if (step % 20 == 0)
      std::printf("step %2d: loss %.4f, gradient norm %.3f\n", step, result.loss,
                  result.gradient_norm);
  }
  const std::vector<float> out = trainer.parameter("points.out");
  std::printf("points.out has %zu numbers\n", out.size());
}
