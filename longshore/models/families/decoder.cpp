// B batch, T length, C width, H query heads, G key/value heads, D head_dim, F mlp_width,
// V vocabulary; N images, R rows of each.
#include "longshore/models/families/decoder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "longshore/base/philox.h"
#include "longshore/models/families/expert_linears.h"
#include "longshore/models/families/lora.h"
#include "longshore/models/families/new_weights.h"
#include "longshore/models/families/vision.h"
#include "longshore/models/ir/add.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/add_bias/add_bias.h"
#include "longshore/models/ops/attention/attention.h"
#include "longshore/models/ops/balance_loss.h"
#include "longshore/models/ops/cached_attention/cached_attention.h"
#include "longshore/models/ops/chunk_ids.h"
#include "longshore/models/ops/clamped_swiglu.h"
#include "longshore/models/ops/columns.h"
#include "longshore/models/ops/constant.h"
#include "longshore/models/ops/distillation_loss.h"
#include "longshore/models/ops/dora/dora.h"
#include "longshore/models/ops/dropout/dropout.h"
#include "longshore/models/ops/embedding/embedding.h"
#include "longshore/models/ops/expert_load.h"
#include "longshore/models/ops/expert_scale.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/models/ops/permute/permute.h"
#include "longshore/models/ops/policy_gradient_loss.h"
#include "longshore/models/ops/pooled_balance_loss.h"
#include "longshore/models/ops/preference_loss.h"
#include "longshore/models/ops/rms_norm/rms_norm.h"
#include "longshore/models/ops/rope/rope.h"
#include "longshore/models/ops/router/router.h"
#include "longshore/models/ops/rows/rows.h"
#include "longshore/models/ops/scale.h"
#include "longshore/models/ops/sequence_log_probs.h"
#include "longshore/models/ops/soft_cap.h"
#include "longshore/models/ops/sum.h"
#include "longshore/models/ops/swiglu.h"
#include "longshore/models/ops/token_rows/token_rows.h"
#include "longshore/models/ops/top_log_probs.h"
#include "longshore/models/ops/weigh_rows.h"

namespace longshore::models {
namespace {

constexpr const char* kDecoderStage = "decoder";

const Weight kLayerScalar{.trainable = Trainable::no,
                          .never_trains = true,
                          .decay = Decay::no,
                          .init = {Init::Kind::ones}};
constexpr Padding kCounted{.value = 0, .counts = true};

const LayerTraits& traits(const DecoderConfig& c) { return c.family->layer; }

Var norm(const DecoderConfig& c, Var x, const std::string& name, int64_t width) {
  const double offset = traits(c).norm_offset;
  const Weight weight{.decay = Decay::no,
                      .init = {offset == 0 ? Init::Kind::ones : Init::Kind::zeros}};
  return rms_norm(x, x.trace->weight(name, {{width}, c.dtype}, weight), c.norm_epsilon,
                  {.weight_offset = offset});
}

Var unweighted_norm(const DecoderConfig& c, Var x, int64_t width) {
  return rms_norm(x, constant(*x.trace, {{width}, c.dtype}, 1), c.norm_epsilon);
}

// x itself where the layer has no such norm.
Var normed(const DecoderConfig& c, Var x, std::string_view name) {
  return name.empty() ? x : norm(c, x, std::string(name) + ".weight", c.width);
}

Var scaled(Var x, double factor) { return factor == 1 ? x : scale(x, factor); }

struct Projection {
  std::string name;
  int64_t width;
  bool has_bias;
};

// What a layer is to be.
struct LayerKind {
  bool has_window = false, has_rope = true;
  bool has_experts = false;
  // Of a loss that is pooled over layers: whether earlier layers have experts, and later ones.
  bool adds_to_sums = false, gives_sums = false;
  KvSharing kv_sharing = KvSharing::none;
  int64_t cache_capacity = 0;  // tokens of its cache; 0: none, for training
  Adapters adapters;

  bool operator==(const LayerKind&) const = default;
};

// Of Source::batch, declared where it is first read.
Var batch_once(Trace& t, const char* name, const Type& type) {
  if (const ValueId known = t.program().find(name)) return {&t, known};
  return t.batch(name, type);
}

Var batch_segments(Trace& t, const DecoderConfig& c) {
  return batch_once(t, "segments", {{c.batch, c.length}, Dtype::int32});
}

// Of dropout.
Var batch_row_numbers(Trace& t, const DecoderConfig& c) {
  return batch_once(t, "row_numbers", {{c.batch}, Dtype::int32});
}
constexpr const char* kLayerNumber = "layer_number";
const Type kOfLayerNumber{{1}, Dtype::float32};

// What a module's adapter reads of x in the layer of that number.
Var dropped_out(const DecoderConfig& c, Var x, Var layer, std::string_view module) {
  return dropout(x, batch_row_numbers(*x.trace, c), layer,
                 {.probability = c.lora.dropout,
                  .seed = c.lora.dropout_seed,
                  .sequence = random_sequence(module)});
}

// The linear layers of one module of the published model, mostly one, that read x.
class Linears {
 public:
  // `module`: of a FusedModule, or the name of the only one.
  Linears(const DecoderConfig& c, const LayerKind& kind, Var x, std::string_view module)
      : c_(c), x_(x), module_(published_module(traits(c), module)) {
    const auto adapter = kind.adapters.find(module_);
    if (adapter == kind.adapters.end()) return;
    adapter_ = adapter->second;
    adapted_ = x;
    if (c.lora.dropout > 0)
      adapted_ = dropped_out(c, x, {x.trace, x.trace->program().find(kLayerNumber)}, module_);
    a_ = lora_a(*adapter_, adapted_, module_);
    of_a_ = lora_input(*adapter_, adapted_, a_);
  }

  const std::string& module() const { return module_; }

  // In the order of the module's rows.
  Var operator()(const Projection& to) {
    const auto& [name, width, has_bias] = to;
    Trace& t = *x_.trace;
    Weight matrix = kLinear, bias = kBias;
    matrix.saved_section = rows(name, ".weight");
    bias.saved_section = rows(name, ".bias");
    if (adapter_)
      matrix.adapter = {.a = lora_a_name(module_),
                        .b = lora_b_name(name),
                        .scale = adapter_->scale,
                        .magnitudes = c_.lora.has_magnitudes ? lora_magnitudes_name(name) : ""};
    Var w = t.weight(name + ".weight", {{width, x_.type().shape.back()}, c_.dtype}, matrix);
    Var y = linear(x_, w);
    if (adapter_) y = adapted(y, w, name);
    rows_ += width;
    return has_bias ? add_bias(y, t.weight(name + ".bias", {{width}, c_.dtype}, bias)) : y;
  }

 private:
  // With what the adapter adds to the product y.
  Var adapted(Var y, Var w, const std::string& name) {
    Var b = lora_b(adapter_->rank, y, name, rows(name, lora_b_name("")));
    if (!c_.lora.has_magnitudes) return linear(of_a_, b, y);
    Var m = lora_magnitudes(y, name, rows(name, lora_magnitudes_name("")));
    Var norms = adapted_norms(w, a_, b, adapter_->scale);
    if (c_.lora.dropout == 0) return scale_columns(linear(of_a_, b, y), m, norms);
    // As peft has it: what drops out does so from the adapted part, beside a product that is whole.
    Var dropped = linear(adapted_, w);
    Var own = scale_columns(linear(of_a_, b, dropped), m, norms);
    return add(add(y, scale(dropped, -1)), own);
  }

  // Which rows those of the layer `name` are, if they are not all of the module.
  std::optional<SavedSection> rows(const std::string& name, const std::string& ending) const {
    if (name == module_) return std::nullopt;
    return SavedSection{.tensor = module_ + ending, .first = rows_};
  }

  const DecoderConfig& c_;
  Var x_;
  std::string module_;
  std::optional<LoraProduct> adapter_;
  Var adapted_, a_, of_a_;  // what the adapter reads, its A, and what its B reads
  int64_t rows_ = 0;        // that the layers before have
};

// Those of one input, in the order of their rows where some are of one module.
std::vector<Var> projections(const DecoderConfig& c, const LayerKind& kind, Var x,
                             const std::vector<Projection>& all) {
  std::vector<Var> outputs;
  std::optional<Linears> linears;
  for (const Projection& to : all) {
    if (!linears || linears->module() != published_module(traits(c), to.name))
      linears.emplace(c, kind, x, to.name);
    outputs.push_back((*linears)(to));
  }
  return outputs;
}

Var projection(const DecoderConfig& c, const LayerKind& kind, Var x, const Projection& to) {
  return projections(c, kind, x, {to})[0];
}

// The embedding or the head, [V,C].
Var vocabulary_weight(Trace& t, const DecoderConfig& c, const std::string& name,
                      const std::optional<WeightAdapter>& adapter = {}) {
  Weight weight = kMatrix;
  weight.adapter = adapter;
  weight.of_adapter = trains_with_adapters(c.lora, name);
  return t.weight(name, {{c.vocabulary, c.width}, c.dtype}, weight);
}

Var embedding_weight(Trace& t, const DecoderConfig& c) {
  return vocabulary_weight(t, c, decoder_prefix(c) + "model.embed_tokens.weight");
}

// The rows of tokens that train by themselves, where there are any.
std::optional<Var> trained_rows(Trace& t, const DecoderConfig& c) {
  const auto tokens = std::ssize(c.lora.trained_tokens);
  if (tokens == 0) return std::nullopt;
  return t.weight(trained_tokens_name(decoder_prefix(c) + "model.embed_tokens"),
                  {{tokens, c.width}, c.dtype},
                  {.decay = Decay::no, .init = kMatrix.init, .of_adapter = true});
}

// A table of rotations that layers read by its name, with "_cos" and "_sin".
struct Rotation {
  std::string name;
  int64_t dim;
  double base;
  RopeScaling scaling = {};
  std::optional<RopeTemperature> temperature = {};
};

constexpr const char *kRope = "rope", *kWindowRope = "window_rope", *kQueryRope = "query_rope",
                     *kUnrotatedQuery = "unrotated_query";

std::vector<Rotation> rotations(const DecoderConfig& c) {
  const int64_t dim = rotary_dim(c, false), window_dim = rotary_dim(c, true);
  std::vector<Rotation> all{
      {.name = kRope, .dim = dim, .base = c.rope_base, .scaling = c.rope_scaling}};
  if (c.window_rope_base)
    all.push_back({.name = kWindowRope, .dim = window_dim, .base = *c.window_rope_base});
  else if (c.window > 0 && window_dim != dim)
    all.push_back(
        {.name = kWindowRope, .dim = window_dim, .base = c.rope_base, .scaling = c.rope_scaling});
  if (c.temperature_beta > 0)
    all.push_back(
        {.name = kQueryRope,
         .dim = dim,
         .base = c.rope_base,
         .scaling = c.rope_scaling,
         .temperature = RopeTemperature{.beta = c.temperature_beta,
                                        .length = original_length(c.rope_scaling).value()}});
  if (c.has_unrotated_temperature)
    all.push_back(
        {.name = kUnrotatedQuery,
         .dim = dim,
         .base = c.rope_base,
         .scaling = ProportionalRopeScaling{.turned = 0, .factor = 1},  // which turns nothing
         .temperature =
             RopeTemperature{.beta = c.unrotated_temperature_beta,
                             .length = static_cast<double>(c.unrotated_temperature_length),
                             .first = 1}});
  return all;
}

// Of x [B,T,C] and of the tokens themselves, for each layer a part (Gemma Team 2025, Gemma 3n):
// [B,T,P] each.
std::vector<Var> per_layer_inputs(const DecoderConfig& c, Var tokens, Var x) {
  Trace& t = *x.trace;
  const std::string prefix = decoder_prefix(c) + "model.";
  const int64_t part = c.per_layer_width, all = c.layers * part;
  auto times = [](Var value, double square) {
    return scale(value, std::sqrt(square), Factor::in_float32);
  };
  Var table =
      t.weight(prefix + "embed_tokens_per_layer.weight", {{c.vocabulary, all}, c.dtype}, kMatrix);
  Var of_tokens = scale(embedding(tokens, table, c.pad_token.value_or(-1)),
                        std::sqrt(static_cast<double>(part)));
  Var matrix =
      t.weight(prefix + "per_layer_model_projection.weight", {{all, c.width}, c.dtype}, kLinear);
  Var of_x = norm(c, times(linear(x, matrix), 1 / static_cast<double>(c.width)),
                  prefix + "per_layer_projection_norm.weight", part);
  Var sum = times(add(of_x, of_tokens), 0.5);  // [B,T,layers*P]
  std::vector<Var> parts;
  for (int64_t layer = 0; layer < c.layers; ++layer)
    parts.push_back(take_columns(sum, layer * part, part));
  return parts;
}

std::optional<Var> segments(Trace& t, const DecoderConfig& c) {
  return c.segments ? std::optional(batch_segments(t, c)) : std::nullopt;
}

// Whether windows are chunks, of which a row can have several.
bool reads_chunk_ids(const DecoderConfig& c) {
  return traits(c).window == WindowKind::chunk && c.window > 0 && c.length > c.window;
}

Program embed(const DecoderConfig& c) {
  Trace t("embed");
  Var tokens = t.batch("tokens", {{c.batch, c.length}, Dtype::int32});                  // [B,T]
  Var positions = t.batch("positions", {{c.batch, c.length}, Dtype::int32}, kCounted);  // [B,T]
  std::vector<RopeTable> tables;
  for (const auto& [name, dim, base, scaling, temperature] : rotations(c))
    tables.push_back(rope_table(positions, dim, base, scaling, temperature));
  Var x = embedding(tokens, embedding_weight(t, c), c.pad_token.value_or(-1));  // [B,T,C]
  if (const auto rows = trained_rows(t, c))
    x = token_rows(x, tokens, *rows, c.lora.trained_tokens, c.pad_token.value_or(-1));
  if (traits(c).scales_embeddings) x = scale(x, std::sqrt(static_cast<double>(c.width)));
  x = scaled(x, c.embedding_multiplier);
  if (const auto& v = c.vision; v && v->reads_images()) {
    Var rows = t.input("image_rows", {{v->images, v->image_tokens, c.width}, c.dtype});  // [N,R,C]
    Var places = t.batch(kImagePlaces, {{v->images, v->image_tokens}, Dtype::int32}, {.value = -1});
    x = replace_rows(x, rows, places);
  }
  t.output(x);  // [B,T,C]
  for (const RopeTable& table : tables) {
    t.output(table.cos);  // [B,T,R/2]
    t.output(table.sin);
  }
  if (reads_chunk_ids(c)) t.output(chunk_ids(positions, segments(t, c), c.window));
  if (c.per_layer_width > 0)
    for (Var part : per_layer_inputs(c, tokens, x)) t.output(part);
  if (c.lora.dropout > 0)
    for (int64_t layer = 0; layer < c.layers; ++layer)
      t.output(constant(t, kOfLayerNumber, static_cast<double>(layer)));
  return t.finish();
}

struct LayerInputs {
  Var x;                                         // [B,T,C]
  std::optional<RopeTable> of_keys, of_queries;  // of this kind of layer
  std::optional<Var> chunks;                     // i32 [B,T]
  std::optional<Var> own;                        // [B,T,P], of this layer alone
};

LayerInputs layer_inputs(Trace& t, const DecoderConfig& c, const LayerKind& kind) {
  LayerInputs in;
  in.x = t.label(t.input("decoder_layer_input", {{c.batch, c.length, c.width}, c.dtype}),
                 "decoder_layer_input");
  std::map<std::string, RopeTable> tables;
  for (const Rotation& rotation : rotations(c)) {
    const Type type{{c.batch, c.length, rotation.dim / 2}, Dtype::float32};
    tables[rotation.name] = {t.input(rotation.name + "_cos", type),
                             t.input(rotation.name + "_sin", type)};
  }
  if (kind.has_rope) {
    const bool is_window = kind.has_window && tables.contains(kWindowRope);
    in.of_keys = tables.at(is_window ? kWindowRope : kRope);
    in.of_queries = !is_window && tables.contains(kQueryRope) ? tables.at(kQueryRope) : in.of_keys;
  } else if (tables.contains(kUnrotatedQuery)) {
    in.of_queries = tables.at(kUnrotatedQuery);
  }
  if (reads_chunk_ids(c)) in.chunks = t.input("chunks", {{c.batch, c.length}, Dtype::int32});
  if (c.per_layer_width > 0)
    in.own = t.input("per_layer_input", {{c.batch, c.length, c.per_layer_width}, c.dtype});
  if (c.lora.dropout > 0) t.input(kLayerNumber, kOfLayerNumber);
  return in;
}

// Of the scores; 0: attention's own, head_dim^-1/2.
double query_scale(const DecoderConfig& c) {
  if (traits(c).unscaled_scores) return 1;
  if (c.attention_multiplier) return *c.attention_multiplier;
  return c.query_pre_attn_scalar ? 1 / std::sqrt(*c.query_pre_attn_scalar) : 0;
}

constexpr const char *kWindowKeys = "window_keys", *kWindowValues = "window_values",
                     *kGlobalKeys = "global_keys", *kGlobalValues = "global_values";

// What attention reads, turned and labelled; keys and values only of a layer that has its own.
struct QueryKeyValue {
  Var query;                      // [B,T,H*D]
  std::optional<Var> key, value;  // [B,T,G*D]
};

// n [B,T,C]
QueryKeyValue query_key_value(const DecoderConfig& c, Var n, const LayerInputs& in,
                              const LayerKind& kind) {
  Trace& t = *n.trace;
  const int64_t d = head_dim(c, kind.has_window);
  const int64_t q_width = c.query_heads * d, kv_width = kv_heads(c, kind.has_window) * d;
  const bool has_bias = traits(c).qkv_bias || c.attention_bias;
  const bool has_keys = kind.kv_sharing != KvSharing::reads;
  const bool has_values = has_keys && (!c.keys_as_values || kind.has_window);
  std::vector<Projection> wanted{{"self_attn.q_proj", q_width, has_bias}};
  if (has_keys) wanted.push_back({"self_attn.k_proj", kv_width, has_bias});
  if (has_values) wanted.push_back({"self_attn.v_proj", kv_width, has_bias});
  const std::vector<Var> made = projections(c, kind, n, wanted);

  Var q = made[0];
  std::optional<Var> k, v;
  if (has_keys) {
    k = made[1];
    v = made.back();  // what keys are made of, where there is no other
    if (traits(c).value_norm) v = unweighted_norm(c, *v, d);
  }
  switch (traits(c).qk_norm) {
    case QkNorm::none:
      break;
    case QkNorm::of_each_head:
    case QkNorm::of_all_heads: {
      const bool is_of_each = traits(c).qk_norm == QkNorm::of_each_head;
      q = norm(c, q, "self_attn.q_norm.weight", is_of_each ? d : q_width);
      if (k) k = norm(c, *k, "self_attn.k_norm.weight", is_of_each ? d : kv_width);
      break;
    }
    case QkNorm::unweighted:
      break;  // of what is turned
  }
  RopeOptions turned{.pairs = traits(c).rope_pairs};
  if (rotary_dim(c, kind.has_window) < d) turned.head_dim = d;
  if (in.of_queries) q = rope(q, *in.of_queries, turned);
  if (in.of_keys && k) k = rope(*k, *in.of_keys, turned);
  if (traits(c).qk_norm == QkNorm::unweighted && c.has_qk_norm && kind.has_rope) {
    q = unweighted_norm(c, q, d);
    if (k) k = unweighted_norm(c, *k, d);
  }
  t.label(q, "query_proj");
  if (k) {
    t.label(*k, "key_proj");
    t.label(*v, "value_proj");
  }
  return {q, k, v};
}

// What layers that share them know them by: those with a window share theirs, and those without.
KeysAndValues of_earlier_layer(Trace& t, const LayerKind& kind, const Type& type) {
  return {t.earlier_layer(kind.has_window ? kWindowKeys : kGlobalKeys, type),
          t.earlier_layer(kind.has_window ? kWindowValues : kGlobalValues, type)};
}

void give_later_layers(Trace& t, const LayerKind& kind, const KeysAndValues& own) {
  t.give_later_layers(own.keys, kind.has_window ? kWindowKeys : kGlobalKeys);
  t.give_later_layers(own.values, kind.has_window ? kWindowValues : kGlobalValues);
}

struct Attended {
  Var out;                           // [B,T,C]
  std::optional<KeysAndValues> own;  // with a cache, the cache
};

// n [B,T,C]
Attended attention_block(const DecoderConfig& c, Var n, const LayerInputs& in,
                         const LayerKind& kind) {
  Trace& t = *n.trace;
  const int64_t d = head_dim(c, kind.has_window), heads = kv_heads(c, kind.has_window);
  const auto [q, k, v] = query_key_value(c, n, in, kind);
  // A token by itself, which goes on a text, sees all before it.
  const bool has_blocks = c.vision && (kind.cache_capacity == 0 || c.length > 1);
  const bool has_chunks = traits(c).window == WindowKind::chunk;
  const AttentionOptions options{
      .head_dim = d,
      .scale = query_scale(c),
      .window = kind.has_window && !has_chunks ? c.window : 0,
      .soft_cap = c.attention_cap,
      .deterministic = c.deterministic,
      .mask = has_blocks ? AttentionMask::blocks : AttentionMask::causal};
  Attended attended;
  Var context, sinks;  // [B,T,H*D], [H]
  if (traits(c).has_sinks)
    sinks = t.weight("self_attn.sinks", {{c.query_heads}, c.dtype},
                     {.decay = Decay::no, .init = kMatrix.init});
  if (kind.cache_capacity > 0) {
    const Type type{{c.batch, kind.cache_capacity, heads, d}, c.dtype};
    Var positions = t.batch("positions", {{c.batch, c.length}, Dtype::int32}, kCounted);
    CachedAttentionOptionalInputs optional{.sinks = sinks};
    if (has_blocks) optional.spans = t.batch(kSpans, {{c.batch, c.length, 2}, Dtype::int32});
    if (k)
      attended.own = {append_to_cache(*k, t.state("key_cache", type), positions),
                      append_to_cache(*v, t.state("value_cache", type), positions)};
    const KeysAndValues cache = attended.own ? *attended.own : of_earlier_layer(t, kind, type);
    const int64_t chunk = kind.has_window && has_chunks ? c.window : 0;
    context = cached_attention(q, cache, positions, {options, chunk}, optional);
  } else {
    AttentionOptionalInputs optional{.sinks = sinks};
    if (kind.has_window && in.chunks)
      optional.segments = *in.chunks;
    else if (c.segments)
      optional.segments = *segments(t, c);
    if (c.vision) optional.blocks = t.batch(kBlocks, {{c.batch, c.length}, Dtype::int32});
    if (k) attended.own = {*k, *v};
    const auto [keys, values] =
        attended.own ? *attended.own
                     : of_earlier_layer(t, kind, {{c.batch, c.length, heads * d}, c.dtype});
    context = attention(q, keys, values, options, optional);
  }
  context = t.label(context, "context");
  attended.out =
      t.label(projection(c, kind, context,
                         {"self_attn.o_proj", c.width, c.attention_bias && traits(c).output_bias}),
              "out_proj");
  return attended;
}

// The MLP's activation of its gate, times `up`.
Var gated(const DecoderConfig& c, Var gate, Var up) {
  switch (traits(c).activation) {
    case Activation::silu:
      return swiglu(gate, up);
    case Activation::gelu_tanh:
      return geglu(gate, up);
    case Activation::clamped_silu:
      break;
  }
  return clamped_swiglu(gate, up, {.alpha = c.activation_alpha, .limit = c.activation_limit});
}

// The MLP of that name and width F. [B,T,C] -> [B,T,C]
Var mlp_block(const DecoderConfig& c, const LayerKind& kind, Var n, std::string_view module,
              int64_t width) {
  Trace& t = *n.trace;
  auto to = [&](const char* name, int64_t out) {
    return Projection{std::string(module) + name, out, c.mlp_bias};
  };
  const std::vector<Var> gate_up =
      projections(c, kind, n, {to(".gate_proj", width), to(".up_proj", width)});
  Var gate = t.label(gate_up[0], "mlpwi_0"), up = t.label(gate_up[1], "mlpwi_1");
  Var act = gated(c, gate, up);  // [B,T,F]
  return t.label(projection(c, kind, act, to(".down_proj", c.width)), "mlpwo");
}

// What a layer's router gives besides.
struct RouterOutputs {
  std::vector<Var> losses;  // scalars, parts of the loss
  std::optional<Var> load;  // a scalar
  std::optional<Var> sums;  // for later layers, [2,E]
};

constexpr const char* kRouterSums = "routed_so_far";

bool pools_balance_loss(const DecoderConfig& c) {
  return c.balance_loss_weight > 0 && c.balance_loss == BalanceLoss::model;
}

void add_pooled_loss(const DecoderConfig& c, const LayerKind& kind, Var logits, Var experts,
                     RouterOutputs& outputs) {
  Trace& t = *logits.trace;
  Var sums = router_sums(logits, experts, batch_segments(t, c));
  if (kind.adds_to_sums) sums = add(t.earlier_layer(kRouterSums, sums.type()), sums);
  if (kind.gives_sums)
    outputs.sums = sums;
  else
    outputs.losses.push_back(pooled_balance_loss(sums, c.experts_per_token, c.balance_loss_weight));
}

void add_router_losses(const DecoderConfig& c, const LayerKind& kind, Var logits, Var experts,
                       RouterOutputs& outputs) {
  const auto layers = static_cast<double>(layers_with_experts(c));
  if (pools_balance_loss(c))
    add_pooled_loss(c, kind, logits, experts, outputs);
  else if (c.balance_loss_weight > 0)
    outputs.losses.push_back(balance_loss(logits, experts, c.balance_loss_weight / layers));
  if (c.router_z_loss_weight > 0)
    outputs.losses.push_back(router_z_loss(logits, c.router_z_loss_weight / layers));
}

// Which experts each token of n [B,T,C] goes to.
Routing routing(const DecoderConfig& c, const LayerKind& kind, Var n, RouterOutputs& outputs) {
  Trace& t = *n.trace;
  const ExpertTraits& experts = traits(c).experts;
  const std::string module(experts.router), matrix = experts.scales_router ? ".proj" : "";
  if (experts.scales_router) {
    Var scales = t.weight(module + ".scale", {{c.width}, c.dtype},
                          {.decay = Decay::no, .init = {Init::Kind::ones}});
    n = scale(rms_norm(n, scales, c.norm_epsilon), 1 / std::sqrt(static_cast<double>(c.width)));
  }
  Var logits =
      linear(n, t.weight(module + matrix + ".weight", {{c.experts, c.width}, c.dtype}, kMatrix));
  if (experts.has_biases)
    logits = add_bias(logits, t.weight(module + ".bias", {{c.experts}, c.dtype}, kBias));
  Routing routing = router(
      logits, {.experts_per_token = c.experts_per_token,
               .score = experts.has_sigmoid_scores ? RouterScore::sigmoid : RouterScore::softmax,
               .normalized = c.normalizes_experts || experts.normalizes});
  if (kind.cache_capacity == 0) add_router_losses(c, kind, logits, routing.experts, outputs);
  if (experts.scales_router)
    routing.weights = scale_by_expert(routing.weights, routing.experts,
                                      t.weight(module + ".per_expert_scale", {{c.experts}, c.dtype},
                                               {.decay = Decay::no, .init = {Init::Kind::ones}}));
  t.label(routing.weights, "moe_routing");
  return routing;
}

// Each token of n through the experts that what the router reads says. [B,T,C] -> [B,T,C]
Var experts_block(const DecoderConfig& c, const LayerKind& kind, Var n, Var read_by_router,
                  RouterOutputs& outputs) {
  Trace& t = *n.trace;
  const ExpertTraits& experts = traits(c).experts;
  const Routing routed = routing(c, kind, read_by_router, outputs);
  const Grouping grouping = group_by_expert(routed.experts, c.experts);
  if (kind.cache_capacity == 0)
    outputs.load = expert_load(grouping.ends, 1 / static_cast<double>(layers_with_experts(c)));
  t.label(grouping.order, "moe_grouping");
  Var x = t.label(permute_tokens(n, grouping), "moe_permuted");  // [M,C]
  if (experts.weighs_inputs) x = weigh_rows(x, routed.weights, grouping.order);
  const auto [gate, up] = expert_gate_up(c, kind.adapters, {x, grouping.ends});  // [M,F]
  t.label(gate, "moe_mlpwi_0");
  t.label(up, "moe_mlpwi_1");
  Var wo = t.label(expert_down(c, kind.adapters, {gated(c, gate, up), grouping.ends}), "moe_mlpwo");
  Var weights = experts.weighs_inputs ? constant(t, routed.weights.type(), 1) : routed.weights;
  Var y = combine_tokens(wo, weights, grouping);
  if (experts.shared.empty()) return y;
  return add(mlp_block(c, kind, n, experts.shared, expert_width(c)), y);
}

// What stands after attention's residual: an MLP, experts, or both. [B,T,C] -> [B,T,C]
Var feed_forward(const DecoderConfig& c, const LayerKind& kind, Var attended,
                 RouterOutputs& outputs) {
  const ExpertTraits& experts = traits(c).experts;
  Var n = normed(c, attended, traits(c).norms.before_mlp);
  if (kind.has_experts && !experts.is_beside()) return experts_block(c, kind, n, n, outputs);
  Var down = mlp_block(c, kind, n, traits(c).mlp, mlp_width(c, kind.kv_sharing));
  if (!kind.has_experts) return down;
  Var given = experts_block(c, kind, normed(c, attended, experts.norm_before), attended, outputs);
  return add(normed(c, down, experts.norm_after_mlp), normed(c, given, experts.norm_after));
}

// What the layer's own input [B,T,P] says to x [B,T,C]: [B,T,C].
Var per_layer_block(const DecoderConfig& c, Var x, Var own) {
  Trace& t = *x.trace;
  const int64_t part = c.per_layer_width;
  Var gate =
      linear(x, t.weight("per_layer_input_gate.weight", {{part, c.width}, c.dtype}, kLinear));
  Var out = linear(gated(c, gate, own),
                   t.weight("per_layer_projection.weight", {{c.width, part}, c.dtype}, kLinear));
  return norm(c, out, "post_per_layer_input_norm.weight", c.width);
}

Program decoder_layer(const DecoderConfig& c, const LayerKind& kind, const std::string& name) {
  Trace t(name);
  LayerInputs in = layer_inputs(t, c, kind);
  const LayerNorms& norms = traits(c).norms;
  auto add_to = [&](Var residual, Var out, std::string_view norm_after) {
    return add(residual, scaled(normed(c, out, norm_after), c.residual_multiplier));
  };
  const auto [out, own] = attention_block(c, normed(c, in.x, norms.before_attention), in, kind);
  Var attended = add_to(in.x, out, norms.after_attention);
  RouterOutputs of_router;
  Var y = add_to(attended, feed_forward(c, kind, attended, of_router), norms.after_mlp);
  if (in.own) y = add(y, per_layer_block(c, y, *in.own));
  if (traits(c).layer_scalar)
    y = scale_by(y, t.weight("layer_scalar", {{1}, c.dtype}, kLayerScalar));
  t.output(y);
  for (Var loss : of_router.losses) t.output(loss, OutputRole::auxiliary_loss);
  if (of_router.load) t.output(*of_router.load, OutputRole::expert_load);
  if (own && kind.cache_capacity > 0) {
    t.output(own->keys, OutputRole::state);
    t.output(own->values, OutputRole::state);
  }
  if (kind.kv_sharing == KvSharing::gives) give_later_layers(t, kind, *own);
  if (of_router.sums) t.give_later_layers(*of_router.sums, kRouterSums);
  return t.finish();
}

// The product of a normed x [.., C] and the head's weight, with what an adapter adds.
class HeadProduct {
 public:
  HeadProduct(const DecoderConfig& c, Var n) : c_(c), x_(scaled(n, 1 / c.logits_scaling)) {
    Trace& t = *n.trace;
    const std::string module = decoder_prefix(c) + kHeadModule;
    if (c.tied_embeddings) {
      w_ = embedding_weight(t, c);
      if (const auto rows = trained_rows(t, c))
        w_ = replace_token_rows(w_, *rows, c.lora.trained_tokens);
      return;
    }
    const auto adapter = adapter_of(c.lora, kHeadModule);
    if (!adapter) {
      w_ = vocabulary_weight(t, c, module + ".weight");
      return;
    }
    const LoraProduct product{.rank = adapter->rank, .scale = c.lora.scale(*adapter)};
    const WeightAdapter of_weight{
        .a = lora_a_name(module), .b = lora_b_name(module), .scale = product.scale};
    w_ = vocabulary_weight(t, c, module + ".weight", of_weight);
    Var adapted = x_;
    if (c.lora.dropout > 0)
      adapted = dropped_out(c, x_, constant(t, kOfLayerNumber, static_cast<double>(c.layers)),
                            kHeadModule);
    of_a_ = lora_input(product, adapted, lora_a(product, adapted, module));
    b_ = t.weight(lora_b_name(module), {{c.vocabulary, product.rank}, c.dtype},
                  {.init = {Init::Kind::zeros}, .of_adapter = true});
  }

  Var logits() const {
    Var y = linear(x_, w_);
    if (of_a_) y = linear(*of_a_, b_, y);
    return c_.logits_cap > 0 ? soft_cap(y, c_.logits_cap) : y;
  }

  TopLogProbs top_log_probs(int64_t count) const {
    const TopLogProbsOptions options{.count = count, .soft_cap = c_.logits_cap};
    return of_a_ ? models::top_log_probs(*of_a_, b_, options, FrozenLogits{x_, w_})
                 : models::top_log_probs(x_, w_, options);
  }

  Var loss(Var targets, Reduction reduction = Reduction::sum) const {
    const LinearCrossEntropyOptions options{.soft_cap = c_.logits_cap, .reduction = reduction};
    return of_a_ ? linear_cross_entropy(*of_a_, b_, targets, options, FrozenLogits{x_, w_})
                 : linear_cross_entropy(x_, w_, targets, options);
  }

 private:
  const DecoderConfig& c_;
  Var x_, w_, b_;
  std::optional<Var> of_a_;  // what B reads, where there is an adapter
};

// The log-probabilities of the row's sequences, for the host.
SequenceLogProbs answers(const DecoderConfig& c, Var losses, Var targets) {
  const SequenceLogProbs answers =
      sequence_log_probs(losses, targets, batch_segments(*losses.trace, c));
  losses.trace->output(answers.sums, OutputRole::log_probs);
  return answers;
}

void add_preference_loss(const DecoderConfig& c, const PreferenceObjective& preference,
                         const HeadProduct& product, Var targets) {
  Trace& t = *targets.trace;
  Var read = targets;
  if (preference.sft_has_prompts)
    read = t.batch(kNextTokens, targets.type(), {.value = kIgnoredTarget});
  Var losses = product.loss(read, Reduction::none);
  const SequenceLogProbs of_answers = answers(c, losses, targets);
  PreferenceLossInputs inputs{.log_probs = of_answers.sums, .counts = of_answers.counts};
  if (preference.has_reference) inputs.reference = t.batch(kReferenceLogProbs, losses.type());
  if (preference.loss.kind == PreferenceLoss::kto)
    inputs.kl = t.batch(kKl, {{c.batch}, losses.type().dtype});
  t.output(preference_loss(inputs, preference.loss), OutputRole::loss);
  if (preference.sft_weight == 0) return;
  Var learnt = preference.sft_has_prompts
                   ? sequence_log_probs(losses, read, batch_segments(t, c)).sums
                   : of_answers.sums;
  t.output(scaled(chosen_loss(learnt), preference.sft_weight), OutputRole::sft_loss);
}

void add_policy_gradient_loss(const DecoderConfig& c, const PolicyGradientOptions& options,
                              const HeadProduct& product, Var targets) {
  Trace& t = *targets.trace;
  Var losses = product.loss(targets, Reduction::none);
  PolicyGradientInputs inputs{.losses = losses,
                              .targets = targets,
                              .segments = batch_segments(t, c),
                              .advantages = t.batch(kAdvantages, losses.type()),
                              .old_log_probs = t.batch(kOldLogProbs, losses.type()),
                              .reference_log_probs = {}};
  if (options.kl_weight > 0)
    inputs.reference_log_probs = t.batch(kReferenceLogProbs, losses.type());
  t.output(policy_gradient_loss(inputs, options), OutputRole::loss);
  t.output(scaled(losses, -1), OutputRole::log_probs);
}

void add_distillation_loss(const DecoderConfig& c, const DistillationObjective& distillation,
                           const HeadProduct& product, Var targets) {
  Trace& t = *targets.trace;
  const Shape shape{c.batch, c.length, distillation.top_k};
  Var tokens = t.batch(kTeacherTokens, {shape, Dtype::int32}, {.value = kIgnoredTarget});
  Var losses = product.loss(tokens, Reduction::none);
  Var divergence = distillation_loss({.losses = losses,
                                      .teacher_log_probs = t.batch(kTeacherLogProbs, losses.type()),
                                      .tokens = tokens,
                                      .targets = targets},
                                     distillation.loss);
  Var loss = scaled(divergence, distillation.weight);
  if (distillation.weight < 1)
    loss = add(loss, scaled(sum(product.loss(targets, Reduction::none)), 1 - distillation.weight));
  t.output(loss, OutputRole::loss);
}

Program head(const DecoderConfig& c, const HeadOptions& options) {
  Trace t("head");
  Var x = t.input("decoder_output", {{c.batch, c.length, c.width}, c.dtype});  // [B,T,C]
  auto normed = [&](Var rows) {
    return norm(c, rows, decoder_prefix(c) + "model.norm.weight", c.width);
  };
  if (options.head == Head::logits) {
    Var rows = t.batch("rows", {{options.rows}, Dtype::int32});     // [N]
    t.output(HeadProduct(c, normed(take_rows(x, rows))).logits());  // [N,V]
    return t.finish();
  }
  if (options.head == Head::top_log_probs) {
    const TopLogProbs top = HeadProduct(c, normed(x)).top_log_probs(options.top_k);
    t.output(top.tokens);     // [B,T,K]
    t.output(top.log_probs);  // [B,T,K]
    return t.finish();
  }
  Var targets =
      t.batch("targets", {{c.batch, c.length}, Dtype::int32}, {.value = kIgnoredTarget});  // [B,T]
  Var n = normed(x);  // [B,T,C]
  const HeadProduct product(c, n);
  if (options.head == Head::hidden_states) {
    t.output(n);
    t.output(product.logits());  // [B,T,V]
    if (const auto& v = c.vision) {
      t.output(t.input("image_rows", {{v->images, v->image_tokens, c.width}, c.dtype}));
      t.output(t.input("tower", {{v->images, v->patches(), v->width}, c.dtype}));
    }
  }
  if (options.head == Head::log_probs)
    answers(c, product.loss(targets, Reduction::none), targets);
  else if (options.preference)
    add_preference_loss(c, *options.preference, product, targets);
  else if (options.policy_gradient)
    add_policy_gradient_loss(c, *options.policy_gradient, product, targets);
  else if (options.distillation)
    add_distillation_loss(c, *options.distillation, product, targets);
  else
    t.output(product.loss(targets), OutputRole::loss);
  return t.finish();
}

Adapters adapters(const DecoderConfig& c, int layer) {
  Adapters adapters;
  for (const std::string& module : adaptable_modules(traits(c), layers_with_experts(c) < c.layers))
    if (const auto found = adapter_of(c.lora, lora_module_name(layer, module)))
      adapters[module] = {.rank = found->rank, .scale = c.lora.scale(*found)};
  return adapters;
}

// The scan: a program for layers with a window and one for those without, as far as there are, and
// for each set of adapters. It reads what the stage `embed` gives.
Stage layers(const DecoderConfig& c, int64_t cache_capacity, int embed) {
  Stage stage{.name = kDecoderStage,
              .weight_prefix = decoder_prefix(c) + "model.layers.{}.",
              .programs = {},
              .layers = {},
              .inputs = {}};
  int outputs = 1 + 2 * static_cast<int>(rotations(c).size()) + (reads_chunk_ids(c) ? 1 : 0);
  for (int output = 0; output < outputs; ++output) stage.inputs.push_back({embed, output});
  auto add_input_by_layer = [&] {
    stage.inputs.push_back({.stage = embed, .output = outputs, .by_layer = true});
    outputs += static_cast<int>(c.layers);
  };
  if (c.per_layer_width > 0) add_input_by_layer();
  if (c.lora.dropout > 0) add_input_by_layer();
  std::vector<LayerKind> kinds;
  std::map<std::string, int> count_of;
  const int64_t with_experts = layers_with_experts(c);
  int64_t before = 0;  // layers with experts
  for (int layer = 0; layer < c.layers; ++layer) {
    const bool is_pooled = pools_balance_loss(c) && has_experts(c, layer) && cache_capacity == 0;
    const LayerKind kind{.has_window = has_window(c, layer),
                         .has_rope = has_rope(c, layer),
                         .has_experts = has_experts(c, layer),
                         .adds_to_sums = is_pooled && before > 0,
                         .gives_sums = is_pooled && before + 1 < with_experts,
                         .kv_sharing = kv_sharing(c, layer),
                         .cache_capacity = cache_capacity,
                         .adapters = adapters(c, layer)};
    before += has_experts(c, layer) ? 1 : 0;
    const auto known = std::ranges::find(kinds, kind);
    stage.layers.push_back(static_cast<int>(known - kinds.begin()));
    if (known != kinds.end()) continue;
    std::string name = kind.has_window ? "window_layer" : "decoder_layer";
    if (!kind.has_rope) name = "unrotated_" + name;
    if (const int count = ++count_of[name]; count > 1) name += "_" + std::to_string(count);
    stage.programs.push_back(decoder_layer(c, kind, name));
    kinds.push_back(kind);
  }
  return stage;
}

// Whether queries of layers without RoPE have a temperature that is not 1 at all of so many places.
bool has_unrotated_temperature(const DecoderConfig& c, int64_t places) {
  return c.has_unrotated_temperature && nope_layer_interval(c) <= c.layers &&
         places >= c.unrotated_temperature_length;
}

Model all_stages(DecoderConfig config, int64_t cache_capacity, const HeadOptions& options) {
  config.has_unrotated_temperature =
      has_unrotated_temperature(config, std::max(config.length, cache_capacity));
  if (cache_capacity > 0) config.lora.dropout = 0;
  Model model{.name = "decoder", .stages = {}, .main_stage = kDecoderStage};
  auto next = [&] { return static_cast<int>(model.stages.size()); };
  std::vector<StageInput> image_rows, head_inputs;
  if (config.vision && config.vision->reads_images()) {
    const bool returns = options.head == Head::hidden_states;
    model.stages =
        vision_stages(config, next(), returns ? TowerOutput::returned : TowerOutput::inner);
    image_rows = {{next() - 1, 0}};
    if (returns) head_inputs = {{next() - 1, 0}, {next() - 1, 1}};
  }
  model.stages.push_back({.name = "embed",
                          .weight_prefix = "",
                          .programs = {embed(config)},
                          .layers = {0},
                          .inputs = std::move(image_rows)});
  model.stages.push_back(layers(config, cache_capacity, next() - 1));
  head_inputs.insert(head_inputs.begin(), {next() - 1, 0});
  model.stages.push_back({.name = "head",
                          .weight_prefix = "",
                          .programs = {head(config, options)},
                          .layers = {0},
                          .inputs = std::move(head_inputs)});
  return model;
}

}  // namespace

std::string decoder_prefix(const DecoderConfig& config) {
  return config.vision ? "language_model." : "";
}

Model decoder(const DecoderConfig& config, const HeadOptions& options) {
  Model model = all_stages(config, 0, options);
  if (config.lora.rank > 0)
    set_trainable(model,
                  [&](const std::string& name) { return trains_with_adapters(config.lora, name); });
  else
    connect(model);
  return model;
}

Model cached_decoder(const DecoderConfig& config, int64_t capacity) {
  Model model = all_stages(config, capacity, {.head = Head::logits, .rows = config.batch});
  connect(model);
  return model;
}

}  // namespace longshore::models
