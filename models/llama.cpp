// B batch, T length, C width, H query heads, G key/value heads, D head_dim, F mlp_width,
// V vocabulary.
#include "models/llama.h"

#include "models/ops/add.h"
#include "models/ops/attention.h"
#include "models/ops/embedding.h"
#include "models/ops/linear.h"
#include "models/ops/linear_cross_entropy.h"
#include "models/ops/rms_norm.h"
#include "models/ops/rope.h"
#include "models/ops/swiglu.h"
#include "models/trace.h"

namespace longshore::models {
namespace {

constexpr double kInitDeviation = 0.02;

const Weight kMatrix{.init = {Init::Kind::normal, kInitDeviation}};
const Weight kNorm{.decay = Decay::no, .init = {Init::Kind::ones}};

Var embedding_weight(Trace& t, const LlamaConfig& c) {
  return t.weight("model.embed_tokens.weight", {{c.vocabulary, c.width}, c.dtype}, kMatrix);
}

Program embed(const LlamaConfig& c) {
  Trace t("embed");
  Var tokens = t.batch("tokens", {{c.batch, c.length}, Dtype::int32});        // [B,T]
  Var positions = t.batch("positions", {{c.batch, c.length}, Dtype::int32});  // [B,T]
  RopeTable table = rope_table(positions, c.head_dim, c.rope_base);           // 2 x [B,T,D/2]
  t.output(embedding(tokens, embedding_weight(t, c)));                        // [B,T,C]
  t.output(table.cos);
  t.output(table.sin);
  return t.finish();
}

Program decoder_layer(const LlamaConfig& c) {
  Trace t("decoder_layer");
  auto matrix = [&](const char* name, int64_t out, int64_t in) {
    return t.weight(name, {{out, in}, c.dtype}, kMatrix);
  };
  auto norm = [&](const char* name, Var x) {
    return rms_norm(x, t.weight(name, {{c.width}, c.dtype}, kNorm), c.norm_epsilon);
  };
  int64_t q_width = c.query_heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
  Type table_type{{c.batch, c.length, c.head_dim / 2}, Dtype::float32};

  Var x = t.label(t.input("decoder_layer_input", {{c.batch, c.length, c.width}, c.dtype}),
                  "decoder_layer_input");  // [B,T,C]
  RopeTable table{t.input("rope_cos", table_type), t.input("rope_sin", table_type)};

  Var n = norm("input_layernorm.weight", x);                                       // [B,T,C]
  Var q = linear(n, matrix("self_attn.q_proj.weight", q_width, c.width));          // [B,T,H*D]
  Var k = linear(n, matrix("self_attn.k_proj.weight", kv_width, c.width));         // [B,T,G*D]
  Var v = linear(n, matrix("self_attn.v_proj.weight", kv_width, c.width));         // [B,T,G*D]
  q = t.label(rope(q, table), "query_proj");                                       // [B,T,H*D]
  k = t.label(rope(k, table), "key_proj");                                         // [B,T,G*D]
  v = t.label(v, "value_proj");                                                    // [B,T,G*D]
  Var context = t.label(attention(q, k, v, {.head_dim = c.head_dim}), "context");  // [B,T,H*D]
  Var out = linear(context, matrix("self_attn.o_proj.weight", c.width, q_width));  // [B,T,C]
  Var residual = add(x, t.label(out, "out_proj"));                                 // [B,T,C]

  Var m = norm("post_attention_layernorm.weight", residual);                     // [B,T,C]
  Var gate = linear(m, matrix("mlp.gate_proj.weight", c.mlp_width, c.width));    // [B,T,F]
  Var up = linear(m, matrix("mlp.up_proj.weight", c.mlp_width, c.width));        // [B,T,F]
  Var act = swiglu(t.label(gate, "mlpwi_0"), t.label(up, "mlpwi_1"));            // [B,T,F]
  Var down = linear(act, matrix("mlp.down_proj.weight", c.width, c.mlp_width));  // [B,T,C]
  t.output(add(residual, t.label(down, "mlpwo")));                               // [B,T,C]
  return t.finish();
}

Program head(const LlamaConfig& c, const HeadOptions& options) {
  Trace t("head");
  Var x = t.input("decoder_output", {{c.batch, c.length, c.width}, c.dtype});  // [B,T,C]
  auto projection = [&] {
    return c.tied_embeddings ? embedding_weight(t, c)
                             : t.weight("lm_head.weight", {{c.vocabulary, c.width}, c.dtype},
                                        kMatrix);  // [V,C]
  };
  auto norm = [&](Var values) {
    return rms_norm(values, t.weight("model.norm.weight", {{c.width}, c.dtype}, kNorm),
                    c.norm_epsilon);
  };
  if (options.head == Head::loss) {
    Var targets = t.batch("targets", {{c.batch, c.length}, Dtype::int32});  // [B,T]
    Var n = norm(x);                                                        // [B,T,C]
    t.output(linear_cross_entropy(n, projection(), targets), OutputRole::loss);
  } else {
    Var rows = t.batch("rows", {{options.rows}, Dtype::int32});  // [N]
    Var n = norm(take_rows(x, rows));                            // [N,C]
    t.output(linear(n, projection()));                           // [N,V]
  }
  return t.finish();
}

}  // namespace

Model llama(const LlamaConfig& config, const HeadOptions& options) {
  Model model{.name = "llama", .stages = {}};
  model.stages.push_back({.name = "embed",
                          .weight_prefix = "",
                          .programs = {embed(config)},
                          .layers = {0},
                          .inputs = {}});
  model.stages.push_back({.name = "decoder",
                          .weight_prefix = "model.layers.{}.",
                          .programs = {decoder_layer(config)},
                          .layers = std::vector<int>(config.layers, 0),
                          .inputs = {{0, 0}, {0, 1}, {0, 2}}});
  model.stages.push_back({.name = "head",
                          .weight_prefix = "",
                          .programs = {head(config, options)},
                          .layers = {0},
                          .inputs = {{1, 0}}});
  connect(model);
  return model;
}

}  // namespace longshore::models
