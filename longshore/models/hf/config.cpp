#include "longshore/models/hf/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/integer.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/problem_list.h"
#include "longshore/models/families/fields.h"
#include "longshore/models/families/limits.h"
#include "longshore/models/hf/json_reader.h"
#include "longshore/models/hf/rope.h"
#include "longshore/models/hf/text_model.h"
#include "longshore/models/hf/vision.h"

namespace longshore::models {
namespace {

using nlohmann::json;

constexpr const char* kQuantization = "quantization_config";

void append(std::vector<UnknownKey>& all, const std::vector<UnknownKey>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// Which layers have a window: as layer_types says, or all but each `period`th; or, where these are
// chunks, all that have RoPE.
void read_windowed(JsonReader& reader, DecoderConfig& config, int64_t period) {
  bool has_list = reader.has("layer_types");
  const std::string window = window_word(*config.family);
  if (config.window == 0) {
    if (has_list)
      for (const json& type : reader.at("layer_types"))
        if (type != kFullAttention)
          throw DataError("layer_types: found " + shown(type) +
                          ", expected full_attention, since there is no " +
                          hf_key(*config.family, kWindow));
    return;
  }
  if (!has_list) {
    for (int64_t layer = 1; layer <= config.layers; ++layer)
      config.windowed.push_back(period > 0 ? layer % period != 0 : has_rope(config, layer - 1));
    return;
  }
  const json& types = reader.at("layer_types");
  if (!types.is_array() || std::ssize(types) != config.layers)
    throw DataError(
        "layer_types: found " +
        (types.is_array() ? "a list of " + std::to_string(types.size()) : shown(types)) +
        ", expected a list of " + std::to_string(config.layers) + ", as num_hidden_layers says");
  for (const json& type : types) {
    if (type != kFullAttention && type != window)
      throw DataError("layer_types: found " + shown(type) + ", expected full_attention or " +
                      window);
    config.windowed.push_back(type == window);
  }
}

// Where use_sliding_window says so, layers have windows.
void require_no_windows(JsonReader& reader, const DecoderConfig& config) {
  const HfKeys& keys = config.family->hf;
  const bool has_types = reader.has("layer_types");
  if (has_types)
    for (const json& type : reader.at("layer_types"))
      if (type != kFullAttention)
        throw DataError("layer_types: found " + shown(type) +
                        ", expected full_attention: windows of this family are not supported");
  if (keys.max_window_layers && has_types) return;
  const int64_t first =
      keys.max_window_layers ? reader.integer("max_window_layers", *keys.max_window_layers) : 0;
  const bool has_size =
      reader.is_said(kWindow.hf_key) ? reader.has(kWindow.hf_key) : keys.window > 0;
  if (reader.flag("use_sliding_window", false) && has_size && first < config.layers)
    reader.refuse("use_sliding_window", "false: windows of this family are not supported");
}

void read_windows(JsonReader& reader, DecoderConfig& config) {
  const HfKeys& keys = config.family->hf;
  int64_t period = keys.full_attention_period;
  if (keys.period_key) {
    period = reader.integer(keys.period_key, period);
    if (period == 0) reader.refuse(keys.period_key, "a number above 0");
  }
  switch (keys.windows) {
    case Windows::none:
      return;
    case Windows::refused:
      return require_no_windows(reader, config);
    case Windows::all:
    case Windows::by_layer:
      break;
  }
  const char* key = hf_key(*config.family, kWindow);
  config.window = reader.is_said(key) ? reader.integer(key, 0) : keys.window;
  if (keys.windows == Windows::by_layer) read_windowed(reader, config, period);
}

// Which layers have RoPE: as no_rope_layers says, or all but each so many'th.
void read_rotated(JsonReader& reader, DecoderConfig& config) {
  constexpr const char* kList = "no_rope_layers";
  if (config.family->hf.nope_layer_interval == 0) return;
  const int64_t interval =
      reader.integer(kNopeLayerInterval.hf_key, config.family->hf.nope_layer_interval);
  if (interval == 0) reader.refuse(kNopeLayerInterval.hf_key, "a number above 0");
  if (!reader.has(kList)) {
    for (int64_t layer = 1; layer <= config.layers; ++layer)
      config.rotated.push_back(layer % interval != 0);
    return;
  }
  const json& list = reader.at(kList);
  auto is_said = [](const json& rotated) {
    return rotated.is_boolean() || rotated == 0 || rotated == 1;
  };
  if (!list.is_array() || std::ssize(list) != config.layers ||
      !std::all_of(list.begin(), list.end(), is_said))
    throw DataError(std::string(kList) + ": found " +
                    (list.is_array() ? "a list of " + std::to_string(list.size()) : shown(list)) +
                    ", expected a list of " + std::to_string(config.layers) +
                    ", as num_hidden_layers says, of 1 and 0");
  for (const json& rotated : list) config.rotated.push_back(rotated == 1 || rotated == true);
}

void read_size(JsonReader& reader, const Field& field, DecoderConfig& config,
               std::optional<int64_t> otherwise = std::nullopt) {
  const char* key = hf_key(*config.family, field);
  const int64_t size = reader.integer(key, otherwise);
  // An odd head_dim has a message of its own.
  const auto least = static_cast<int64_t>(&field == &kHeadDim ? 1 : field.low),
             most = static_cast<int64_t>(field.high);
  if (size < least || size > most)
    throw DataError(std::string(key) + ": found " + std::to_string(size) + ", expected " +
                    std::to_string(least) + " to " + std::to_string(most));
  set_value(field, static_cast<double>(size), config);
}

void read_sizes(JsonReader& reader, DecoderConfig& config) {
  // Where nothing is said transformers takes these from another key, or else the size of one
  // published model, which is nobody's intention.
  for (const std::string& key : config.family->hf.required)
    if (!reader.is_said(key)) reader.at(key);
  for (const Field* field : {&kVocabulary, &kWidth, &kLayers, &kQueryHeads})
    read_size(reader, *field, config);
  read_size(reader, kKvHeads, config, config.query_heads);
  read_size(reader, kHeadDim, config, config.width / config.query_heads);
  read_size(reader, kMlpWidth, config);
  config.norm_epsilon = reader.number(kNormEpsilon.hf_key, config.family->hf.norm_epsilon);
  if (config.query_heads % config.kv_heads != 0)
    throw DataError("num_key_value_heads: found " + std::to_string(config.kv_heads) +
                    ", expected a divisor of num_attention_heads, " +
                    std::to_string(config.query_heads));
  if (config.head_dim % 2 != 0)
    throw DataError("head_dim: found " + std::to_string(config.head_dim) +
                    ", expected an even number");
}

// What only some families have.
void read_fields(JsonReader& reader, DecoderConfig& config) {
  const HfKeys& keys = config.family->hf;
  reader.word(keys.activation, keys.activations, keys.activations[0]);
  for (const std::string& key : keys.off) reader.expect_off(key);
  for (const WordKey& word : keys.words)
    if (reader.has(word.key)) reader.word(word.key, word.words);
  config.tied_embeddings = reader.flag(kTiedEmbeddings.hf_key, keys.tied_embeddings);
  for (const FamilyField& of_family : keys.fields) {
    const Field& field = *of_family.field;
    const double otherwise = of_family.otherwise;
    if (field.kind == FieldKind::other || field.kind == FieldKind::size) continue;
    if (field.kind == FieldKind::count) {
      read_size(reader, field, config, static_cast<int64_t>(otherwise));
      continue;
    }
    const char* key = hf_key(*config.family, field);
    // It was a number in early files, of which 0 alone was false.
    if (&field == &kUnrotatedTemperature && reader.has(key) && reader.at(key).is_number_integer()) {
      set_value(field, reader.at(key) == 0 ? 0 : 1, config);
      continue;
    }
    set_value(field,
              field.kind == FieldKind::flag  ? reader.flag(key, otherwise != 0)
              : field.kind == FieldKind::cap ? reader.cap(key, otherwise)
                                             : reader.positive(key, otherwise),
              config);
  }
}

struct LayerSizes {
  int64_t head_dim, kv_heads;

  bool operator==(const LayerSizes&) const = default;
};

// What per_layer_config says of a layer; keys are numbers of layers, with or without zeros before.
std::map<int64_t, LayerSizes> read_layer_sizes(const json& value, const DecoderConfig& config) {
  constexpr const char* kKey = "per_layer_config";
  expect_object(value, kKey);
  std::map<int64_t, LayerSizes> sizes;
  for (const auto& [key, layer] : value.items()) {
    const std::optional<int64_t> number = integer<int64_t>(key);
    if (!number || *number < 0 || *number >= config.layers)
      throw DataError(std::string(kKey) + ": found " + excerpt(key) +
                      ", expected the number of a layer");
    const std::string prefix = std::string(kKey) + "." + key;
    expect_object(layer, prefix);
    JsonReader reader(layer, prefix + ".");
    sizes[*number] = {reader.integer(kHeadDim.hf_key, config.head_dim),
                      reader.integer(kKvHeads.hf_key, config.kv_heads)};
    if (const auto unknown = reader.unknown_keys(); !unknown.empty())
      throw DataError(unknown[0].name + ": found a key that is not supported, expected " +
                      kHeadDim.hf_key + " or " + kKvHeads.hf_key);
  }
  return sizes;
}

// The sizes of layers without a window, in either spelling: layer by layer, or by keys of their
// own.
LayerSizes global_sizes(JsonReader& reader, const DecoderConfig& config) {
  constexpr const char* kByLayer = "per_layer_config";
  const LayerSizes usual{config.head_dim, config.kv_heads};
  const LayerSizes said{reader.integer(kGlobalHeadDim.hf_key, config.family->hf.global_head_dim),
                        reader.has(kGlobalKvHeads.hf_key) && config.keys_as_values
                            ? reader.integer(kGlobalKvHeads.hf_key)
                            : usual.kv_heads};
  if (!reader.has(kByLayer)) return said;
  const std::map<int64_t, LayerSizes> by_layer = read_layer_sizes(reader.at(kByLayer), config);
  std::optional<LayerSizes> global;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto found = by_layer.find(layer);
    const LayerSizes sizes = found == by_layer.end() ? usual : found->second;
    if (has_window(config, layer) ? sizes != usual : global.value_or(sizes) != sizes)
      reader.refuse(kByLayer, "one size for all layers with a window, and one for all others");
    if (!has_window(config, layer)) global = sizes;
  }
  return global.value_or(usual);
}

void read_global_sizes(JsonReader& reader, DecoderConfig& config) {
  if (!find_field(*config.family, kGlobalHeadDim)) return;
  const LayerSizes sizes = global_sizes(reader, config);
  if (sizes.head_dim < 2 || sizes.head_dim % 2 != 0 || sizes.head_dim > kMaxHeadDim)
    throw DataError("global_head_dim: found " + std::to_string(sizes.head_dim) +
                    ", expected an even number up to " + std::to_string(kMaxHeadDim));
  if (sizes.kv_heads < 1 || config.query_heads % sizes.kv_heads != 0)
    throw DataError("num_global_key_value_heads: found " + std::to_string(sizes.kv_heads) +
                    ", expected a divisor of num_attention_heads, " +
                    std::to_string(config.query_heads));
  if (sizes.head_dim != config.head_dim) config.global_head_dim = sizes.head_dim;
  if (sizes.kv_heads != config.kv_heads) config.global_kv_heads = sizes.kv_heads;
}

// Numbers of layers that `key` lists.
std::vector<int64_t> read_layers(JsonReader& reader, const char* key, int64_t layers) {
  std::vector<int64_t> numbers;
  const json& list = reader.at(key);
  if (!list.is_array()) reader.refuse(key, "a list of layers");
  for (const json& layer : list) {
    if (!layer.is_number_integer() || layer < 0 || layer >= layers)
      throw DataError(std::string(key) + ": found " + shown(layer) +
                      ", expected the number of a layer");
    numbers.push_back(layer.get<int64_t>());
  }
  return numbers;
}

// Which layers have experts: each so many'th, but those of a list; or those of a list alone.
void read_sparse(JsonReader& reader, DecoderConfig& config) {
  constexpr const char *kDense = "mlp_only_layers", *kSparse = "moe_layers";
  const bool by_step = config.family->hf.dense_layers == DenseLayers::by_step;
  const char* step_key = by_step ? "interleave_moe_layer_step" : "decoder_sparse_step";
  const int64_t step = reader.integer(step_key, 1);
  if (step == 0) reader.refuse(step_key, "a number above 0");
  const bool has_list = by_step && reader.has(kSparse);
  for (int64_t layer = 1; layer <= config.layers; ++layer)
    config.sparse.push_back(!has_list && layer % step == 0);
  if (has_list)
    for (int64_t layer : read_layers(reader, kSparse, config.layers))
      config.sparse[static_cast<size_t>(layer)] = true;
  if (!by_step && reader.has(kDense))
    for (int64_t layer : read_layers(reader, kDense, config.layers))
      config.sparse[static_cast<size_t>(layer)] = false;
}

void read_experts(JsonReader& reader, DecoderConfig& config) {
  const HfKeys& keys = config.family->hf;
  if (keys.expert_counts.empty()) return;
  const char* count_key = keys.expert_counts[0];
  const char* taken_key = hf_key(*config.family, kExpertsPerToken);
  const char* width_key = hf_key(*config.family, kExpertWidth);
  if (keys.experts_flag && !reader.flag(keys.experts_flag, false)) {
    for (const char* key : {count_key, taken_key, width_key}) reader.has(key);
    return;
  }
  for (const char* key : keys.expert_counts)
    if (reader.has(key)) count_key = key;
  config.experts = reader.integer(count_key);
  if (config.experts < 1 || config.experts > kMaxExperts)
    reader.refuse(count_key, "1 to " + std::to_string(kMaxExperts));
  config.experts_per_token = reader.integer(taken_key);
  if (config.experts_per_token < 1 || config.experts_per_token > config.experts)
    reader.refuse(taken_key,
                  "1 to " + std::string(count_key) + ", " + std::to_string(config.experts));
  // As gpt-oss's files have it besides.
  constexpr const char* kOtherTaken = "experts_per_token";
  if (reader.has(kOtherTaken) && reader.at(kOtherTaken) != config.experts_per_token)
    reader.refuse(kOtherTaken, "the same as " + std::string(taken_key));
  if (find_field(*config.family, kExpertWidth)) {
    read_size(reader, kExpertWidth, config);
    if (config.expert_width == 0) reader.refuse(width_key, "a number above 0");
  }
  if (keys.dense_layers != DenseLayers::none) read_sparse(reader, config);
  // Of the loss that balances experts in transformers, which is not here.
  for (const char* key : {"router_aux_loss_coef", "output_router_logits"}) reader.has(key);
}

// What layers share, and what they have beside the residual stream.
void check_layers(JsonReader& reader, const DecoderConfig& config) {
  constexpr int64_t kOtherwise = 262144;
  if (const std::optional<int64_t> layer = layer_without_keys(config))
    reader.refuse(kKvSharedLayers.hf_key,
                  "fewer: no layer before those has keys for layer " + std::to_string(*layer));
  if (config.per_layer_width > 0 &&
      reader.integer(kPerLayerVocabulary, kOtherwise) != config.vocabulary)
    reader.refuse(kPerLayerVocabulary, "vocab_size, " + std::to_string(config.vocabulary));
}

// As torch.nn.Embedding takes it: negative numbers count from the end.
void read_pad_token(JsonReader& reader, DecoderConfig& config) {
  const char* kKey = kPadToken.hf_key;
  if (!reader.has(kKey)) {
    config.pad_token = reader.is_said(kKey) ? std::nullopt : config.family->hf.pad_token;
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

// How files keep weights, which are read as numbers whatever they are.
void read_quantization(JsonReader& reader, const Family& family) {
  if (!reader.has(kQuantization)) return;
  const json& value = reader.at(kQuantization);
  expect_object(value, kQuantization);
  JsonReader of_weights(value, std::string(kQuantization) + ".");
  std::vector<std::string> methods{"bitsandbytes", "fp8"};
  if (family.hf.quantization) methods.emplace_back(family.hf.quantization);
  // Files of before there were others do not say it.
  const bool is_of_bitsandbytes =
      of_weights.flag("load_in_4bit", false) || of_weights.flag("load_in_8bit", false);
  const std::string method =
      of_weights.word("quant_method", methods, is_of_bitsandbytes ? methods[0] : "");
  constexpr const char* kBlock = "weight_block_size";
  if (method == "fp8" && (!of_weights.has(kBlock) || of_weights.at(kBlock) != json{128, 128}))
    of_weights.refuse(kBlock, "[128,128]");
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

// Those that are read: of a model that also reads images, its text model.
std::vector<std::string> model_types() {
  std::vector<std::string> names;
  for (const Family* family : families()) names.emplace_back(family->name);
  for (const std::string& type : whole_model_types()) names.push_back(type);
  return names;
}

struct Reading {
  DecoderConfig decoder;
  std::vector<UnknownKey> unknown_keys;
};

Reading read_decoder(std::string_view text, Images images) {
  const json object = parse_object(text);
  JsonReader reader(object);
  const std::string type = reader.word("model_type", model_types());
  Reading reading;
  if (const VisionFamily* family = find_vision_family(type)) {
    if (images == Images::ignore && family->has_prefix)
      reader.refuse("model_type",
                    "a model of text where images are not read (use_multimodal=false, or no "
                    "pixel_values): this one sees no text as its text model would");
    reading = read_decoder(text_model_config(text), images);
    if (images == Images::read || (images == Images::needed && family->has_prefix))
      reading.decoder.vision = read_vision_config(object, reading.decoder, reading.unknown_keys);
    return reading;
  }
  if (!find_family(type)) {
    if (images == Images::read)
      reader.refuse("model_type",
                    "gemma3 or paligemma, whose images are read; of this one the text "
                    "model is trained, with use_multimodal=false");
    return read_decoder(text_model_config(text), Images::ignore);
  }
  DecoderConfig& decoder = reading.decoder;
  decoder.family = find_family(type);
  read_sizes(reader, decoder);
  read_dtype(object, decoder);
  read_quantization(reader, *decoder.family);
  read_rope(reader, decoder, reading.unknown_keys);
  if (const char* key = kMaxPositionEmbeddings.hf_key; reader.has(key))
    decoder.max_position_embeddings = reader.integer(key);
  read_pad_token(reader, decoder);
  reader.expect_off("attention_dropout");
  read_fields(reader, decoder);
  read_rotated(reader, decoder);
  read_windows(reader, decoder);
  read_global_sizes(reader, decoder);
  read_experts(reader, decoder);
  check_layers(reader, decoder);
  append(reading.unknown_keys, reader.unknown_keys());
  return reading;
}

}  // namespace

DecoderConfig parse_hf_config(std::string_view text, UnknownKeys unknown, Images images) {
  const Reading reading = read_decoder(text, images);
  if (reading.unknown_keys.empty() || unknown == UnknownKeys::ignore) return reading.decoder;
  ProblemList problems;
  for (const UnknownKey& key : reading.unknown_keys)
    problems.add(excerpt(key.name) + ": found an unknown key, which may change results" +
                 nearest_help(key.nearest));
  throw DataError(problems.text() + "; with allow_unknown_config_keys=true it is ignored");
}

std::vector<std::string> unknown_hf_keys(std::string_view text, Images images) {
  std::vector<std::string> names;
  for (const UnknownKey& key : read_decoder(text, images).unknown_keys) names.push_back(key.name);
  return names;
}

namespace {

// The parts of a config that have a key of their own: of a model that also reads images, the text
// model and the tower.
std::vector<nlohmann::ordered_json*> parts_of(nlohmann::ordered_json& object) {
  std::vector<nlohmann::ordered_json*> parts;
  for (const char* key : {"text_config", "vision_config"})
    if (object.contains(key) && object[key].is_object()) parts.push_back(&object[key]);
  return parts;
}

bool set_dtype(nlohmann::ordered_json& object, std::string_view dtype) {
  bool has_key = false;
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (!object.contains(key)) continue;
    object[key] = dtype;
    has_key = true;
  }
  return has_key;
}

}  // namespace

std::string without_hf_quantization(std::string_view text) {
  nlohmann::ordered_json object = parse_ordered_object(text);
  object.erase(kQuantization);
  return json_text(object);
}

std::string with_hf_dtype(std::string_view text, std::string_view dtype) {
  nlohmann::ordered_json object = parse_ordered_object(text);
  object.erase(kQuantization);
  for (nlohmann::ordered_json* part : parts_of(object)) set_dtype(*part, dtype);
  if (!set_dtype(object, dtype)) object["dtype"] = dtype;
  return json_text(object);
}

std::string with_hf_pad_token(std::string_view text, std::optional<int64_t> pad_token) {
  nlohmann::ordered_json object = parse_ordered_object(text);
  const nlohmann::ordered_json value =
      pad_token ? nlohmann::ordered_json(*pad_token) : nlohmann::ordered_json(nullptr);
  if (object.contains("text_config") && object["text_config"].is_object())
    object["text_config"]["pad_token_id"] = value;
  object["pad_token_id"] = value;
  return json_text(object);
}

std::string with_hf_vocabulary(std::string_view text, int64_t vocabulary) {
  nlohmann::ordered_json object = parse_ordered_object(text);
  const bool has_part = object.contains("text_config") && object["text_config"].is_object();
  nlohmann::ordered_json& decoder = has_part ? object["text_config"] : object;
  decoder["vocab_size"] = vocabulary;
  if (object.contains("vocab_size")) object["vocab_size"] = vocabulary;
  if (decoder.contains(kPerLayerWidth.hf_key)) decoder[kPerLayerVocabulary] = vocabulary;
  return json_text(object);
}

}  // namespace longshore::models
