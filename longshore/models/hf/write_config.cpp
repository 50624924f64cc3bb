#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/text.h"
#include "longshore/models/families/fields.h"
#include "longshore/models/families/vision_config.h"
#include "longshore/models/hf/config.h"
#include "longshore/models/hf/json_reader.h"
#include "longshore/models/hf/numbers.h"
#include "longshore/models/hf/rope.h"

namespace longshore::models {
namespace {

using nlohmann::json;

double query_pre_attn_scalar(const DecoderConfig& c) {
  const auto head_dim = static_cast<double>(c.head_dim);
  return c.attention_multiplier ? head_dim : c.query_pre_attn_scalar.value_or(head_dim);
}

bool has_window_everywhere(const DecoderConfig& c) {
  for (int64_t layer = 0; layer < c.layers; ++layer)
    if (!has_window(c, layer)) return false;
  return true;
}

bool reads(const Family& family, const Field& field) {
  return find_field(family, field) != nullptr;
}

// What the model has and config.json of that family cannot say, in the words of its keys.
std::vector<std::string> beyond(const DecoderConfig& c, const Family& family) {
  const bool has_windows = family.hf.windows == Windows::by_layer;
  std::vector<std::string> found;
  auto check = [&](bool is_beyond, const char* what) {
    if (is_beyond) found.emplace_back(what);
  };
  for (const Field* field :
       {&kAttentionBias, &kMlpBias, &kAttentionCap, &kLogitsCap, &kKeysAsValues, &kKvSharedLayers,
        &kPerLayerWidth, &kActivationLimit, &kUsesQkNorm, &kUnrotatedTemperature})
    check(value(*field, c) != 0 && !reads(family, *field), field->hf_key);
  check(c.activation_limit == 0 && reads(family, kActivationLimit), kActivationLimit.hf_key);
  for (const Field* field : {&kEmbeddingMultiplier, &kResidualMultiplier, &kLogitsScaling})
    check(value(*field, c) != 1 && !reads(family, *field), field->hf_key);
  check(c.attention_multiplier && !reads(family, kAttentionMultiplier),
        kAttentionMultiplier.hf_key);
  const double scalar = query_pre_attn_scalar(c);
  if (!reads(family, kQueryPreAttnScalar))
    check(scalar != static_cast<double>(c.head_dim), kQueryPreAttnScalar.hf_key);
  else
    check(!is_integer(scalar), "query_pre_attn_scalar, which has to be an integer");
  check(c.window > 0 && !has_windows && family.hf.windows != Windows::all, kWindow.hf_key);
  check(c.window > 0 && family.hf.windows == Windows::all && !has_window_everywhere(c),
        "layer_types");
  const bool may_have_experts = !family.hf.expert_counts.empty(),
             may_have_none = !may_have_experts || family.hf.experts_flag;
  check(c.experts > 0 ? !may_have_experts : !may_have_none, kExperts.hf_key);
  check(c.experts > 0 && expert_width(c) != c.mlp_width && !reads(family, kExpertWidth),
        kExpertWidth.hf_key);
  check(c.normalizes_experts && !reads(family, kNormalizesExperts), kNormalizesExperts.hf_key);
  const bool has_dense_layer = moe_layer_step(c) != 1;
  check(c.experts > 0 && has_dense_layer && family.hf.dense_layers == DenseLayers::none,
        "mlp_only_layers");
  check(c.window == 0 && has_windows, kWindow.hf_key);
  check(nope_layer_interval(c) <= c.layers && family.hf.nope_layer_interval == 0, "no_rope_layers");
  const bool has_global = reads(family, kGlobalHeadDim);
  check(head_dim(c, false) != c.head_dim && !has_global, kGlobalHeadDim.hf_key);
  check(kv_heads(c, false) != c.kv_heads && !(has_global && c.keys_as_values),
        kGlobalKvHeads.hf_key);
  for (const std::string& what : rope_beyond(c, family)) found.push_back(what);
  return found;
}

// The family whose config.json says all that the model is: its own, or else another that computes
// the same.
const Family& family_that_says(const DecoderConfig& c) {
  if (beyond(c, *c.family).empty()) return *c.family;
  for (const Family* other : families())
    if (computes_as(*other, *c.family) && beyond(c, *other).empty()) return *other;
  throw ConfigError("no model_type of Hugging Face describes this model; the nearest, " +
                    std::string(c.family->name) + ", differs in " + join(beyond(c, *c.family)));
}

void write_windows(const DecoderConfig& c, const Family& family, json& object) {
  const HfKeys& keys = family.hf;
  switch (keys.windows) {
    case Windows::none:
      return;
    case Windows::refused:
      object["use_sliding_window"] = false;
      return;
    case Windows::all:
      object[kWindow.hf_key] = c.window > 0 ? json(c.window) : json(nullptr);
      return;
    case Windows::by_layer:
      break;
  }
  object[hf_key(family, kWindow)] = c.window;
  json types = json::array();
  for (int64_t layer = 0; layer < c.layers; ++layer)
    types.push_back(has_window(c, layer) ? window_word(family) : kFullAttention);
  object["layer_types"] = types;
  if (const int64_t period = full_attention_period(c); keys.period_key && period > 0)
    object[keys.period_key] = period;
}

// The spelling that all releases read.
void write_global_sizes(const DecoderConfig& c, const Family& family, json& object) {
  if (!reads(family, kGlobalHeadDim)) return;
  object[kGlobalHeadDim.hf_key] = head_dim(c, false);
  object[kGlobalKvHeads.hf_key] = c.keys_as_values ? json(kv_heads(c, false)) : json(nullptr);
}

void write_rotated(const DecoderConfig& c, const HfKeys& keys, json& object) {
  if (keys.nope_layer_interval == 0) return;
  json rotated = json::array();
  for (int64_t layer = 0; layer < c.layers; ++layer) rotated.push_back(has_rope(c, layer) ? 1 : 0);
  object["no_rope_layers"] = rotated;
  const int64_t interval = nope_layer_interval(c);
  object[kNopeLayerInterval.hf_key] = interval > 0 ? interval : keys.nope_layer_interval;
}

void write_sparse(const DecoderConfig& c, DenseLayers keys, json& object) {
  json dense = json::array(), sparse = json::array();
  for (int64_t layer = 0; layer < c.layers; ++layer)
    (has_experts(c, layer) ? sparse : dense).push_back(layer);
  if (keys == DenseLayers::by_list) {
    object["mlp_only_layers"] = dense;
    object["decoder_sparse_step"] = 1;
  } else if (keys == DenseLayers::by_step) {
    object["moe_layers"] = sparse;
  }
}

void write_experts(const DecoderConfig& c, const Family& family, json& object) {
  if (family.hf.expert_counts.empty()) return;
  if (c.experts == 0) return;
  if (family.hf.experts_flag) object[family.hf.experts_flag] = true;
  for (const char* key : family.hf.expert_counts) object[key] = c.experts;
  object[hf_key(family, kExpertsPerToken)] = c.experts_per_token;
  if (reads(family, kExpertWidth)) object[hf_key(family, kExpertWidth)] = expert_width(c);
  write_sparse(c, family.hf.dense_layers, object);
}

json written(const Field& field, const DecoderConfig& c) {
  if (&field == &kQueryPreAttnScalar) return json_number(query_pre_attn_scalar(c));
  if (&field == &kAttentionMultiplier)
    return c.attention_multiplier.value_or(1 / std::sqrt(static_cast<double>(c.head_dim)));
  const double said = value(field, c);
  switch (field.kind) {
    case FieldKind::flag:
      return said != 0;
    case FieldKind::cap:
      return said > 0 ? json(said) : json(nullptr);
    case FieldKind::size:
    case FieldKind::count:
      return static_cast<int64_t>(said);
    case FieldKind::number:
    case FieldKind::other:
      break;
  }
  return said;
}

const char* dtype_name(const DecoderConfig& c) {
  return c.dtype == Dtype::bfloat16 ? "bfloat16" : "float32";
}

json text_model(const DecoderConfig& c) {
  const Family& family = family_that_says(c);
  json object = {{"architectures", {family.hf_class}},
                 {"dtype", dtype_name(c)},
                 {kMaxPositionEmbeddings.hf_key, c.max_position_embeddings.value_or(c.length)},
                 {"model_type", family.name},
                 {kPadToken.hf_key, c.pad_token ? json(*c.pad_token) : json(nullptr)},
                 {kNormEpsilon.hf_key, c.norm_epsilon},
                 {kTiedEmbeddings.hf_key, c.tied_embeddings},
                 {family.hf.activation, family.hf.activations[0]}};
  for (const Field* field : decoder_fields())
    if (field->kind == FieldKind::size) object[hf_key(family, *field)] = written(*field, c);
  for (const FamilyField& field : family.hf.fields)
    if (field.field->kind != FieldKind::other && field.field->kind != FieldKind::size)
      object[hf_key(family, *field.field)] = written(*field.field, c);
  if (std::ranges::find(family.hf.off, kAttentionBias.hf_key) != family.hf.off.end())
    object[kAttentionBias.hf_key] = false;
  if (c.per_layer_width > 0) object[kPerLayerVocabulary] = c.vocabulary;
  for (const std::string& key : family.hf.null) object[key] = nullptr;
  write_rope(c, family, object);
  write_windows(c, family, object);
  write_rotated(c, family.hf, object);
  write_global_sizes(c, family, object);
  write_experts(c, family, object);
  return object;
}

// Of a model that also reads images, around its text model.
json whole_model(const DecoderConfig& c, json text) {
  const VisionConfig& vision = *c.vision;
  json tower = {{"model_type", "siglip_vision_model"},
                {"hidden_act", "gelu_pytorch_tanh"},
                {"layer_norm_eps", vision.norm_epsilon},
                {"num_channels", 3},
                {"vision_use_head", false}};
  for (const VisionField& field : vision_fields()) tower[field.hf_key] = vision.*field.member;
  json object = {
      {"architectures", {vision.family->hf_class}}, {"dtype", dtype_name(c)},
      {"model_type", vision.family->name},          {"image_token_index", vision.image_token},
      {kTiedEmbeddings.hf_key, c.tied_embeddings},  {kPadToken.hf_key, text.at(kPadToken.hf_key)}};
  if (vision.family->pools) {
    object["mm_tokens_per_image"] = vision.image_tokens;
  } else {
    object["projection_dim"] = c.width;
    tower["projection_dim"] = c.width;
  }
  text.erase("architectures");
  object["text_config"] = std::move(text);
  object["vision_config"] = std::move(tower);
  return object;
}

}  // namespace

std::string write_hf_config(const DecoderConfig& config) {
  json object = text_model(config);
  if (config.vision) object = whole_model(config, std::move(object));
  return object.dump(2) + "\n";
}

std::vector<std::string> beyond_rope_keys(const DecoderConfig& config) {
  return rope_beyond(config, *config.family);
}

std::string with_hf_rope(std::string_view text, const DecoderConfig& config) {
  nlohmann::ordered_json whole = parse_ordered_object(text);
  nlohmann::ordered_json& object = whole.contains("text_config") ? whole["text_config"] : whole;
  for (const char* key : kRopeKeys) object.erase(key);
  json keys = json::object();
  write_rope(config, *config.family, keys);
  if (config.max_position_embeddings)
    keys[kMaxPositionEmbeddings.hf_key] = *config.max_position_embeddings;
  // transformers scales RoPE by this key, where it has other ways to know heads.
  if (object.value("head_dim", nlohmann::ordered_json()).is_null())
    keys["head_dim"] = config.head_dim;
  for (const auto& [key, value] : keys.items()) object[key] = value;
  return json_text(whole);
}

std::string with_both_spellings(std::string_view text) {
  const DecoderConfig config = parse_hf_config(text, UnknownKeys::ignore, Images::read);
  nlohmann::ordered_json whole = parse_ordered_object(text);
  nlohmann::ordered_json& object = config.vision ? whole["text_config"] : whole;
  json keys = json::object();
  write_rope(config, *config.family, keys);
  const char* period_key = config.family->hf.period_key;
  if (const int64_t period = full_attention_period(config);
      period_key && period > 0 && !object.contains("_" + std::string(period_key)))
    keys[period_key] = period;
  if (config.experts > 0)
    for (const char* key : config.family->hf.expert_counts) keys[key] = config.experts;
  bool is_changed = false;
  for (const auto& [key, value] : keys.items()) {
    if (object.contains(key) && !object[key].is_null()) continue;
    object[key] = value;
    is_changed = true;
  }
  return is_changed ? json_text(whole) : std::string(text);
}

}  // namespace longshore::models
