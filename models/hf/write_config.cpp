#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "models/hf/config.h"
#include "models/hf/json_reader.h"

namespace longshore::models {
namespace {

using nlohmann::json;

const char* model_type(const DecoderConfig& c) {
  if (c.block == Block::gemma) return "gemma";
  if (c.block == Block::gemma2) return c.qk_norm ? "gemma3_text" : "gemma2";
  if (c.qk_norm) return "qwen3";
  const bool has_bias = c.qkv_bias || c.output_bias || c.mlp_bias;  // which no mistral has
  if (c.window > 0 || (c.is_mistral && !has_bias)) return "mistral";
  return c.qkv_bias && !c.output_bias ? "qwen2" : "llama";
}

const char* architecture(const std::string& type) {
  static const std::map<std::string, const char*> kClasses{
      {"llama", "LlamaForCausalLM"},        {"mistral", "MistralForCausalLM"},
      {"qwen2", "Qwen2ForCausalLM"},        {"qwen3", "Qwen3ForCausalLM"},
      {"gemma", "GemmaForCausalLM"},        {"gemma2", "Gemma2ForCausalLM"},
      {"gemma3_text", "Gemma3ForCausalLM"},
  };
  return kClasses.at(type);
}

double default_query_scale(const DecoderConfig& c) {
  return 1 / std::sqrt(static_cast<double>(c.head_dim));
}

bool has_window_everywhere(const DecoderConfig& c) {
  for (int layer = 0; layer < c.layers; ++layer)
    if (!has_window(c, layer)) return false;
  return true;
}

bool is_integer(double value) {
  constexpr double kMaxExact = 9007199254740992;  // 2^53
  return value == std::floor(value) && std::abs(value) < kMaxExact;
}

// transformers 5 takes no 64.0 for an integer.
json number(double value) {
  return is_integer(value) ? json(static_cast<int64_t>(value)) : json(value);
}

// What the model has and its model_type has not, in the words of the config's keys.
std::vector<std::string> beyond(const DecoderConfig& c, const std::string& type) {
  const bool is_gemma = type.starts_with("gemma"), is_llama = type == "llama";
  const bool is_gemma3 = type == "gemma3_text", is_windowed = is_gemma3 || type == "gemma2";
  std::vector<std::string> found;
  auto check = [&](bool is_beyond, const char* what) {
    if (is_beyond) found.push_back(what);
  };
  check(c.qkv_bias && (is_gemma || type == "mistral"), "attention_bias");
  check(c.output_bias != (c.qkv_bias && (is_llama || type == "qwen3")),
        "a bias on attention's output as on its inputs");
  check(c.mlp_bias && !is_llama, "mlp_bias");
  check(c.qk_norm && type == "gemma", "norms on query and key");
  check(c.window > 0 && !is_windowed && type != "mistral", "sliding_window");
  check(type == "mistral" && c.window > 0 && !has_window_everywhere(c), "layer_types");
  check(c.window == 0 && is_windowed, "sliding_window");
  check(c.query_scale > 0 && c.query_scale != default_query_scale(c) && !is_windowed,
        "query_pre_attn_scalar");
  check(c.query_scale > 0 && is_windowed && !is_integer(query_pre_attn_scalar(c.query_scale)),
        "query_pre_attn_scalar, which has to be an integer");
  check(c.attention_cap > 0 && type != "gemma2", "attn_logit_softcapping");
  check(c.logits_cap > 0 && !is_windowed, "final_logit_softcapping");
  check(c.window_rope_base > 0 && !is_gemma3, "rope_local_base_freq");
  check(c.window_rope_base == 0 && is_gemma3 && c.rope_scaling != RopeScaling{},
        "rope_scaling of layers with a window");
  return found;
}

json cap(double value) { return value > 0 ? json(value) : json(nullptr); }

// rope_scaling's keys, with the type in the spelling that all readers know.
json scaling(const RopeScaling& scaling) {
  if (const auto* linear = std::get_if<LinearRopeScaling>(&scaling))
    return {{"rope_type", "linear"}, {"factor", linear->factor}};
  if (const auto* llama3 = std::get_if<Llama3RopeScaling>(&scaling))
    return {{"rope_type", "llama3"},
            {"factor", llama3->factor},
            {"low_freq_factor", llama3->low_freq_factor},
            {"high_freq_factor", llama3->high_freq_factor},
            {"original_max_position_embeddings", number(llama3->original_max_position_embeddings)}};
  return {{"rope_type", "default"}};
}

void write_rope(const DecoderConfig& c, bool has_local, json& object) {
  json rope = scaling(c.rope_scaling);
  object["rope_theta"] = c.rope_base;
  if (c.rope_scaling != RopeScaling{}) object["rope_scaling"] = rope;
  rope["rope_theta"] = c.rope_base;
  if (!has_local) {
    object["rope_parameters"] = rope;
    return;
  }
  const double local = c.window_rope_base > 0 ? c.window_rope_base : c.rope_base;
  object["rope_local_base_freq"] = local;
  object["rope_parameters"] = {
      {"full_attention", rope},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
}

// Each `period`th layer is without a window, and no other: the older spelling of layer_types.
int period(const DecoderConfig& c) {
  int first = 0;
  while (first < c.layers && has_window(c, first)) ++first;
  for (int layer = 0; layer < c.layers; ++layer)
    if (has_window(c, layer) != ((layer + 1) % (first + 1) != 0)) return 0;
  return first + 1;
}

void write_gemma_like(const DecoderConfig& c, const std::string& type, json& object) {
  constexpr const char* kTanhGelu = "gelu_pytorch_tanh";
  object["attention_bias"] = false;
  object[type == "gemma" ? "hidden_act" : "hidden_activation"] = kTanhGelu;
  if (type == "gemma") return;
  object["query_pre_attn_scalar"] =
      number(query_pre_attn_scalar(c.query_scale > 0 ? c.query_scale : default_query_scale(c)));
  object["attn_logit_softcapping"] = cap(c.attention_cap);
  object["final_logit_softcapping"] = cap(c.logits_cap);
  object["sliding_window"] = c.window;
  json types = json::array();
  for (int layer = 0; layer < c.layers; ++layer)
    types.push_back(has_window(c, layer) ? kSlidingAttention : kFullAttention);
  object["layer_types"] = types;
  if (type == "gemma3_text" && period(c) > 0) object["sliding_window_pattern"] = period(c);
}

void write_llama_like(const DecoderConfig& c, const std::string& type, json& object) {
  object["hidden_act"] = "silu";
  if (type == "llama" || type == "qwen3") object["attention_bias"] = c.qkv_bias;
  if (type == "llama") object["mlp_bias"] = c.mlp_bias;
  if (type == "mistral") object["sliding_window"] = c.window > 0 ? json(c.window) : json(nullptr);
  if (type.starts_with("qwen")) object["use_sliding_window"] = false;
}

}  // namespace

std::string write_hf_config(const DecoderConfig& config) {
  const DecoderConfig& c = config;
  const std::string type = model_type(c);
  if (const std::vector<std::string> found = beyond(c, type); !found.empty())
    throw ConfigError("no model_type of Hugging Face describes this model; the nearest, " + type +
                      ", differs in " + join(found));
  json object = {{"architectures", {architecture(type)}},
                 {"dtype", c.dtype == Dtype::bfloat16 ? "bfloat16" : "float32"},
                 {"head_dim", c.head_dim},
                 {"hidden_size", c.width},
                 {"intermediate_size", c.mlp_width},
                 {"max_position_embeddings", c.length},
                 {"model_type", type},
                 {"num_attention_heads", c.query_heads},
                 {"num_hidden_layers", c.layers},
                 {"num_key_value_heads", c.kv_heads},
                 {"pad_token_id", c.pad_token >= 0 ? json(c.pad_token) : json(nullptr)},
                 {"rms_norm_eps", c.norm_epsilon},
                 {"tie_word_embeddings", c.tied_embeddings},
                 {"vocab_size", c.vocabulary}};
  write_rope(c, type == "gemma3_text", object);
  if (type.starts_with("gemma"))
    write_gemma_like(c, type, object);
  else
    write_llama_like(c, type, object);
  return object.dump(2) + "\n";
}

std::string with_both_spellings(std::string_view text) {
  const DecoderConfig config = parse_hf_config(text, UnknownKeys::ignore);
  nlohmann::ordered_json object = parse_ordered_object(text);
  const bool is_gemma3 = object["model_type"] == "gemma3_text";
  json keys = json::object();
  write_rope(config, is_gemma3, keys);
  if (is_gemma3 && period(config) > 0 && !object.contains("_sliding_window_pattern"))
    keys["sliding_window_pattern"] = period(config);
  bool is_changed = false;
  for (const auto& [key, value] : keys.items()) {
    if (object.contains(key) && !object[key].is_null()) continue;
    object[key] = value;
    is_changed = true;
  }
  return is_changed ? json_text(object) : std::string(text);
}

}  // namespace longshore::models
