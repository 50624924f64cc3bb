// N images, P patches of each, E the tower's width, D its head_dim, F its mlp_width; R rows of an
// image in the decoder, C the decoder's width.
#include "longshore/models/families/vision.h"

#include <array>
#include <cmath>
#include <string>

#include "longshore/models/families/new_weights.h"
#include "longshore/models/ir/add.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/add_bias/add_bias.h"
#include "longshore/models/ops/attention/attention.h"
#include "longshore/models/ops/average_pool/average_pool.h"
#include "longshore/models/ops/gelu.h"
#include "longshore/models/ops/layer_norm/layer_norm.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/rms_norm/rms_norm.h"

namespace longshore::models {
namespace {

const Weight kScale{.decay = Decay::no, .init = {Init::Kind::ones}};

// Of the tower and the projector, in the decoder's dtype.
class VisionTrace {
 public:
  VisionTrace(const DecoderConfig& config, const char* name)
      : v_(*config.vision), dtype_(config.dtype), t_(name) {}

  Trace& trace() { return t_; }
  const VisionConfig& config() const { return v_; }
  Type rows(int64_t width) const { return {{v_.images, v_.patches(), width}, dtype_}; }

  Var weight(const std::string& name, Shape shape, const Weight& weight) {
    return t_.weight(name, {shape, dtype_}, weight);
  }

  Var norm(Var x, const std::string& name) {
    const int64_t width = x.type().shape.back();
    return layer_norm(x, weight(name + ".weight", {width}, kScale),
                      weight(name + ".bias", {width}, kBias), v_.norm_epsilon);
  }

  Var project(Var x, const std::string& name, int64_t width) {
    Var y = linear(x, weight(name + ".weight", {width, x.type().shape.back()}, kLinear));
    return add_bias(y, weight(name + ".bias", {width}, kBias));
  }

 private:
  const VisionConfig& v_;
  Dtype dtype_;
  Trace t_;
};

const std::string kTower = "vision_tower.vision_model.";

Program patches(const DecoderConfig& config) {
  VisionTrace v(config, "vision_embed");
  const VisionConfig& c = v.config();
  Var pixels = v.trace().batch(kPixelValues, v.rows(c.patch_values()));  // [N,P,3*p*p]
  Weight kernel = kMatrix;
  kernel.saved_shape = {c.width, 3, c.patch_size, c.patch_size};
  const std::string name = kTower + "embeddings.";
  Var x = linear(pixels, v.weight(name + "patch_embedding.weight", {c.width, c.patch_values()},
                                  kernel));  // [N,P,E]
  x = add_bias(x, v.weight(name + "patch_embedding.bias", {c.width}, kBias));
  x = add_bias(x, v.weight(name + "position_embedding.weight", {c.patches(), c.width}, kMatrix));
  v.trace().output(x);
  return v.trace().finish();
}

Program tower_layer(const DecoderConfig& config) {
  VisionTrace v(config, "vision_layer");
  Trace& t = v.trace();
  const VisionConfig& c = v.config();
  Var x = t.label(t.input("vision_layer_input", v.rows(c.width)), "decoder_layer_input");
  Var n = v.norm(x, "layer_norm1");
  Var q = t.label(v.project(n, "self_attn.q_proj", c.width), "query_proj");
  Var k = t.label(v.project(n, "self_attn.k_proj", c.width), "key_proj");
  Var val = t.label(v.project(n, "self_attn.v_proj", c.width), "value_proj");
  const AttentionOptions options{.head_dim = c.width / c.heads,
                                 .deterministic = config.deterministic,
                                 .mask = AttentionMask::full};
  Var context = t.label(attention(q, k, val, options), "context");
  Var residual = add(x, t.label(v.project(context, "self_attn.out_proj", c.width), "out_proj"));

  Var m = v.norm(residual, "layer_norm2");
  Var inner = t.label(v.project(m, "mlp.fc1", c.mlp_width), "mlpwi");  // [N,P,F]
  t.output(add(residual, t.label(v.project(gelu(inner), "mlp.fc2", c.width), "mlpwo")));
  return t.finish();
}

Program projector(const DecoderConfig& config, TowerOutput output) {
  VisionTrace v(config, "projector");
  Trace& t = v.trace();
  const VisionConfig& c = v.config();
  Var tower = v.norm(t.input("tower_output", v.rows(c.width)), kTower + "post_layernorm");
  if (!c.family->pools) {
    t.output(v.project(tower, "multi_modal_projector.linear", config.width));  // [N,P,C]
    if (output == TowerOutput::returned) t.output(tower);
    return t.finish();
  }
  const auto window = std::llround(std::sqrt(static_cast<double>(c.patches() / c.image_tokens)));
  Var x = average_pool(tower, window);  // [N,R,E]
  const std::string name = "multi_modal_projector.";
  x = rms_norm(x,
               v.weight(name + "mm_soft_emb_norm.weight", {c.width},
                        {.decay = Decay::no, .init = {Init::Kind::zeros}}),
               c.norm_epsilon, {.weight_offset = 1});
  t.output(transposed_linear(x, v.weight(name + "mm_input_projection_weight",
                                         {c.width, config.width}, kMatrix)));  // [N,R,C]
  if (output == TowerOutput::returned) t.output(tower);
  return t.finish();
}

}  // namespace

std::vector<Stage> vision_stages(const DecoderConfig& config, int first, TowerOutput tower) {
  std::vector<Stage> stages;
  stages.push_back({.name = "vision_embed",
                    .weight_prefix = "",
                    .programs = {patches(config)},
                    .layers = {0},
                    .inputs = {}});
  stages.push_back({.name = kVisionStage,
                    .weight_prefix = kTower + "encoder.layers.{}.",
                    .programs = {tower_layer(config)},
                    .layers = std::vector<int>(static_cast<size_t>(config.vision->layers), 0),
                    .inputs = {{first, 0}}});
  stages.push_back({.name = "projector",
                    .weight_prefix = "",
                    .programs = {projector(config, tower)},
                    .layers = {0},
                    .inputs = {{first + 1, 0}}});
  return stages;
}

}  // namespace longshore::models
