#include "models/hf/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/error.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "base/problem_list.h"
#include "models/hf/json_reader.h"
#include "models/hf/text_model.h"
#include "models/families/limits.h"

namespace longshore::models {
namespace {

using nlohmann::json;

// What scalings have in all: each reads some of it, and the rest changes nothing.
constexpr const char* kOfScalings[] = {"attention_factor",
                                       "beta_fast",
                                       "beta_slow",
                                       "factor",
                                       "finetuned",
                                       "high_freq_factor",
                                       "long_factor",
                                       "low_freq_factor",
                                       "mscale",
                                       "mscale_all_dim",
                                       "original_max_position_embeddings",
                                       "short_factor",
                                       "truncate"};

void append(std::vector<UnknownKey>& all, const std::vector<UnknownKey>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

RopeScaling read_scaling(JsonReader& rope) {
  for (const char* key : kOfScalings) rope.has(key);
  const std::vector<std::string> types{"default", "linear", "llama3"};
  const std::string older = rope.word("type", types, "default");
  const std::string type = rope.word("rope_type", types, older);
  if (rope.has("type") && type != older) rope.refuse("type", "the same as rope_type");
  if (type == "linear") return LinearRopeScaling{rope.positive("factor")};
  if (type == "llama3") {
    Llama3RopeScaling scaling{rope.positive("factor"), rope.positive("low_freq_factor"),
                              rope.positive("high_freq_factor"),
                              rope.positive("original_max_position_embeddings")};
    if (scaling.low_freq_factor >= scaling.high_freq_factor)
      rope.refuse("low_freq_factor",
                  "less than high_freq_factor, " + shown(rope.at("high_freq_factor")));
    return scaling;
  }
  return {};
}

// One set of rotations: its base and scaling, in the newer spelling.
void read_rope_parameters(const json& value, const std::string& key, double& base,
                          RopeScaling& scaling, std::vector<UnknownKey>& unknown) {
  expect_object(value, key);
  JsonReader rope(value, key + ".");
  base = rope.positive("rope_theta", base);
  scaling = read_scaling(rope);
  append(unknown, rope.unknown_keys());
}

// By the key of transformers 5.
void read_newer_rope(JsonReader& reader, DecoderConfig& config, bool has_local,
                     std::vector<UnknownKey>& unknown) {
  const json& value = reader.at("rope_parameters");
  expect_object(value, "rope_parameters");
  if (!has_local) {
    read_rope_parameters(value, "rope_parameters", config.rope_base, config.rope_scaling, unknown);
    return;
  }
  JsonReader kinds(value, "rope_parameters.");
  read_rope_parameters(kinds.at("full_attention"), "rope_parameters.full_attention",
                       config.rope_base, config.rope_scaling, unknown);
  RopeScaling local;
  read_rope_parameters(kinds.at("sliding_attention"), "rope_parameters.sliding_attention",
                       config.window_rope_base, local, unknown);
  if (local != RopeScaling{})
    JsonReader(kinds.at("sliding_attention"), "rope_parameters.sliding_attention.")
        .refuse("rope_type", "default");
  append(unknown, kinds.unknown_keys());
}

void read_rope(JsonReader& reader, DecoderConfig& config, bool has_local,
               std::vector<UnknownKey>& unknown) {
  if (has_local) config.window_rope_base = reader.positive("rope_local_base_freq", 10000);
  config.rope_base = reader.positive("rope_theta", has_local ? 1e6 : 10000);
  if (reader.has("rope_scaling")) {
    const json& value = reader.at("rope_scaling");
    expect_object(value, "rope_scaling");
    JsonReader rope(value, "rope_scaling.");
    rope.has("rope_theta");
    config.rope_scaling = read_scaling(rope);
    if (rope.has("rope_theta") && rope.positive("rope_theta") != config.rope_base)
      rope.refuse("rope_theta", "the same as rope_theta beside it");
    append(unknown, rope.unknown_keys());
  }
  if (!reader.has("rope_parameters")) return;
  const DecoderConfig older = config;
  read_newer_rope(reader, config, has_local, unknown);
  // Which of them counts differs between versions of transformers.
  if (reader.has("rope_theta") && config.rope_base != older.rope_base)
    reader.refuse("rope_theta", "the same as in rope_parameters");
  if (reader.has("rope_scaling") && config.rope_scaling != older.rope_scaling)
    reader.refuse("rope_scaling", "the same as in rope_parameters");
}

// transformers 5 prefers what stands beside rope_parameters, 4 does not read it.
void check_original_length(JsonReader& reader, const DecoderConfig& config) {
  constexpr const char* kKey = "original_max_position_embeddings";
  const auto* scaling = std::get_if<Llama3RopeScaling>(&config.rope_scaling);
  if (reader.has(kKey) && scaling &&
      reader.positive(kKey) != scaling->original_max_position_embeddings)
    reader.refuse(kKey, "the same as in RoPE's parameters");
}

void read_window(JsonReader& reader, DecoderConfig& config) {
  constexpr int64_t kWhereNothingIsSaid = 4096;
  config.window =
      reader.is_said("sliding_window") ? reader.integer("sliding_window", 0) : kWhereNothingIsSaid;
}

// Which layers have a window: as layer_types says, or all but each `period`th.
void read_windowed(JsonReader& reader, DecoderConfig& config, int64_t period) {
  bool has_list = reader.has("layer_types");
  if (config.window == 0) {
    if (has_list)
      for (const json& type : reader.at("layer_types"))
        if (type != "full_attention")
          throw DataError("layer_types: found " + shown(type) +
                          ", expected full_attention, since there is no sliding_window");
    return;
  }
  if (!has_list) {
    for (int layer = 0; layer < config.layers; ++layer)
      config.windowed.push_back((layer + 1) % period != 0);
    return;
  }
  const json& types = reader.at("layer_types");
  if (!types.is_array() || std::ssize(types) != config.layers)
    throw DataError(
        "layer_types: found " +
        (types.is_array() ? "a list of " + std::to_string(types.size()) : shown(types)) +
        ", expected a list of " + std::to_string(config.layers) + ", as num_hidden_layers says");
  for (const json& type : types) {
    if (type != "full_attention" && type != "sliding_attention")
      throw DataError("layer_types: found " + shown(type) +
                      ", expected full_attention or sliding_attention");
    config.windowed.push_back(type == "sliding_attention");
  }
}

void read_sizes(JsonReader& reader, const std::string& type, DecoderConfig& config) {
  // Where nothing is said transformers takes these from another key, or else the size of one
  // published model, which is nobody's intention.
  auto expect = [&](const char* key) {
    if (!reader.is_said(key)) reader.at(key);
  };
  if (type != "llama") expect("num_key_value_heads");
  if (type == "qwen3" || type.starts_with("gemma")) expect("head_dim");

  auto size = [&](const std::string& key, int64_t least, int64_t most,
                  std::optional<int64_t> otherwise = std::nullopt) {
    int64_t value = reader.integer(key, otherwise);
    if (value < least || value > most)
      throw DataError(key + ": found " + std::to_string(value) + ", expected " +
                      std::to_string(least) + " to " + std::to_string(most));
    return value;
  };
  config.vocabulary = size("vocab_size", kMinVocabulary, kMaxVocabulary);
  config.width = size("hidden_size", 1, kMaxWidth);
  config.layers = static_cast<int>(size("num_hidden_layers", 1, kMaxLayers));
  config.query_heads = size("num_attention_heads", 1, kMaxHeads);
  config.kv_heads = size("num_key_value_heads", 1, kMaxHeads, config.query_heads);
  config.head_dim = size("head_dim", 1, kMaxHeadDim, config.width / config.query_heads);
  config.mlp_width = size("intermediate_size", 1, kMaxMlpWidth);
  config.norm_epsilon = reader.number("rms_norm_eps", 1e-6);  // as all of transformers' families
  if (config.query_heads % config.kv_heads != 0)
    throw DataError("num_key_value_heads: found " + std::to_string(config.kv_heads) +
                    ", expected a divisor of num_attention_heads, " +
                    std::to_string(config.query_heads));
  if (config.head_dim % 2 != 0)
    throw DataError("head_dim: found " + std::to_string(config.head_dim) +
                    ", expected an even number");
}

// As torch.nn.Embedding takes it: negative numbers count from the end. Gemmas have one where
// nothing is said.
void read_pad_token(JsonReader& reader, const std::string& type, DecoderConfig& config) {
  constexpr const char* kKey = "pad_token_id";
  if (!reader.has(kKey)) {
    config.pad_token = type.starts_with("gemma") && !reader.is_said(kKey) ? 0 : -1;
    return;
  }
  const json& value = reader.at(kKey);
  const int64_t count = config.vocabulary;
  const double number = value.is_number_integer() ? value.get<double>() : INFINITY;
  if (number < static_cast<double>(-count) || number >= static_cast<double>(count))
    reader.refuse(kKey, "null, or an id below vocab_size, " + std::to_string(count));
  const auto id = value.get<int64_t>();
  config.pad_token = id < 0 ? id + count : id;
}

void read_dtype(const json& object, DecoderConfig& config) {
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (!object.contains(key) || object[key].is_null()) continue;
    JsonReader reader(object);
    bool is_bfloat16 =
        reader.word(key, {"float32", "bfloat16", "float16", "float64"}) == "bfloat16";
    config.dtype = is_bfloat16 ? Dtype::bfloat16 : Dtype::float32;
  }
}

// As those of Qwen are published: the layers from max_window_layers on have a window, where
// use_sliding_window says so and no layer_types say otherwise.
void require_no_windows(JsonReader& reader, int layers) {
  constexpr int64_t kMaxWindowLayersWhereNothingIsSaid = 28;
  const bool has_windows = reader.flag("use_sliding_window", false);
  if (reader.has("layer_types")) {
    for (const json& type : reader.at("layer_types"))
      if (type != "full_attention")
        throw DataError("layer_types: found " + shown(type) +
                        ", expected full_attention: windows of a Qwen are not supported");
  } else if (has_windows && reader.is_said("sliding_window") && reader.has("sliding_window") &&
             reader.integer("max_window_layers", kMaxWindowLayersWhereNothingIsSaid) < layers) {
    reader.refuse("use_sliding_window", "false: windows of a Qwen are not supported");
  }
}

void read_llama_like(JsonReader& reader, const std::string& type, DecoderConfig& config) {
  reader.word("hidden_act", {"silu", "swish"}, "silu");
  config.tied_embeddings = reader.flag("tie_word_embeddings", false);
  if (type == "llama") {
    config.qkv_bias = config.output_bias = reader.flag("attention_bias", false);
    config.mlp_bias = reader.flag("mlp_bias", false);
  } else if (type == "mistral") {
    config.is_mistral = true;
    read_window(reader, config);
  } else {
    config.qkv_bias = type == "qwen2" || reader.flag("attention_bias", false);
    config.output_bias = type == "qwen3" && config.qkv_bias;
    config.qk_norm = type == "qwen3";
    require_no_windows(reader, config.layers);
  }
}

void read_gemma_like(JsonReader& reader, const std::string& type, DecoderConfig& config) {
  // Gemma 1 was published with hidden_act "gelu", which transformers takes for its tanh form.
  if (type == "gemma")
    reader.word("hidden_act", {"gelu_pytorch_tanh", "gelu"}, "gelu_pytorch_tanh");
  else
    reader.word("hidden_activation", {"gelu_pytorch_tanh"}, "gelu_pytorch_tanh");
  reader.expect_off("attention_bias");
  reader.expect_off("use_bidirectional_attention");
  config.tied_embeddings = reader.flag("tie_word_embeddings", true);
  config.block = type == "gemma" ? Block::gemma : Block::gemma2;
  if (type == "gemma") return;
  config.query_scale = 1 / std::sqrt(reader.positive("query_pre_attn_scalar", 256));
  if (type == "gemma2") config.attention_cap = reader.cap("attn_logit_softcapping", 50);
  config.logits_cap = reader.cap("final_logit_softcapping", type == "gemma2" ? 30 : 0);
  config.qk_norm = type == "gemma3_text";
  int64_t period = 2;
  if (type == "gemma3_text") {
    constexpr const char* kPeriod = "sliding_window_pattern";
    period = reader.integer(kPeriod, 6);
    if (period == 0) reader.refuse(kPeriod, "a number above 0");
  }
  read_window(reader, config);
  read_windowed(reader, config, period);
}

struct Reading {
  DecoderConfig decoder;
  std::vector<UnknownKey> unknown_keys;
};

Reading read_decoder(std::string_view text) {
  const json object = parse_object(text);
  JsonReader reader(object);
  const std::string type = reader.word("model_type", {"llama", "mistral", "qwen2", "qwen3", "gemma",
                                                      "gemma2", "gemma3_text", "gemma3"});
  if (type == "gemma3") return read_decoder(text_model_config(text));
  Reading reading;
  read_sizes(reader, type, reading.decoder);
  read_dtype(object, reading.decoder);
  read_rope(reader, reading.decoder, type == "gemma3_text", reading.unknown_keys);
  check_original_length(reader, reading.decoder);
  read_pad_token(reader, type, reading.decoder);
  reader.expect_off("attention_dropout");
  if (type.starts_with("gemma"))
    read_gemma_like(reader, type, reading.decoder);
  else
    read_llama_like(reader, type, reading.decoder);
  append(reading.unknown_keys, reader.unknown_keys());
  return reading;
}

}  // namespace

DecoderConfig parse_hf_config(std::string_view text, UnknownKeys unknown) {
  const Reading reading = read_decoder(text);
  if (reading.unknown_keys.empty() || unknown == UnknownKeys::ignore) return reading.decoder;
  ProblemList problems;
  for (const UnknownKey& key : reading.unknown_keys)
    problems.add(excerpt(key.name) + ": found an unknown key, which may change results" +
                 nearest_help(key.nearest));
  throw DataError(problems.text() + "; with allow_unknown_config_keys=true it is ignored");
}

std::vector<std::string> unknown_hf_keys(std::string_view text) {
  std::vector<std::string> names;
  for (const UnknownKey& key : read_decoder(text).unknown_keys) names.push_back(key.name);
  return names;
}

std::optional<int64_t> max_position_embeddings(std::string_view text) {
  constexpr const char* kKey = "max_position_embeddings";
  const json object = parse_object(text);
  JsonReader reader(object);
  if (!reader.has(kKey)) return std::nullopt;
  return reader.integer(kKey);
}

std::string with_hf_dtype(std::string_view text, std::string_view dtype) {
  nlohmann::ordered_json object = parse_ordered_object(text);
  bool has_key = false;
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (!object.contains(key)) continue;
    object[key] = dtype;
    has_key = true;
  }
  if (!has_key) object["dtype"] = dtype;
  return json_text(object);
}

std::string with_hf_pad_token(std::string_view text, int64_t pad_token) {
  nlohmann::ordered_json object = parse_ordered_object(text);
  object["pad_token_id"] =
      pad_token >= 0 ? nlohmann::ordered_json(pad_token) : nlohmann::ordered_json(nullptr);
  return json_text(object);
}

}  // namespace longshore::models
