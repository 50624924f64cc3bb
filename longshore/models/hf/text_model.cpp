#include "longshore/models/hf/text_model.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/models/families/vision_config.h"
#include "longshore/models/hf/json_reader.h"

namespace longshore::models {
namespace {

using nlohmann::json;

constexpr const char* kTextConfig = "text_config";

// Keys that say where images and sounds stand in a text, and what reads them.
constexpr const char* kOfImages[] = {
    "vision_config",        "mm_tokens_per_image", "boi_token_index",
    "boi_token_id",         "eoi_token_index",     "eoi_token_id",
    "image_token_id",       "image_token_index",   "projection_dim",
    "ignore_index",         "video_token_id",      "audio_config",
    "audio_token_id",       "boa_token_id",        "boa_token_index",
    "eoa_token_index",      "eoa_token_id",        "multimodal_projector_bias",
    "projector_hidden_act", "spatial_merge_size",  "vision_feature_layer"};

// The text models of a model that no VisionFamily describes, and what they are by themselves.
struct TextOf {
  const char *whole, *text;
  const Family* family;
};
const TextOf kTexts[] = {{"gemma4", "gemma4_text", &kGemma4Text},
                         {"gemma4_unified", "gemma4_unified_text", &kGemma4Text},
                         {"llama4", "llama4_text", &kLlama4Text},
                         {"mistral3", "mistral", &kMistral},
                         {"mistral3", "ministral3", &kMinistral3}};

const Family& family_of(const std::string& text_type) {
  for (const TextOf& text : kTexts)
    if (text_type == text.text) return *text.family;
  return *find_family(text_type);
}

// The defaults of transformers that published files rely on.
json defaults_of(const std::string& text_type) {
  if (text_type == "gemma3_text")
    return {{"vocab_size", 262208}, {"num_attention_heads", 8},
            {"head_dim", 256},      {"num_key_value_heads", 4},
            {"rms_norm_eps", 1e-6}, {"max_position_embeddings", 131072},
            {"pad_token_id", 0}};
  if (&family_of(text_type) == &kGemma4Text) {
    json defaults = {
        {"rms_norm_eps", 1e-6},
        {"pad_token_id", 0},
        {"rope_parameters",
         {{"full_attention",
           {{"partial_rotary_factor", 0.25}, {"rope_theta", 1e6}, {"rope_type", "proportional"}}},
          {"sliding_attention", {{"rope_theta", 1e4}, {"rope_type", "default"}}}}}};
    if (text_type == "gemma4_unified_text") {
      defaults["hidden_size_per_layer_input"] = 0;
      defaults["sliding_window"] = 1024;
    }
    return defaults;
  }
  if (!text_type.starts_with("gemma")) return json::object();
  return {{"head_dim", 256},
          {"rms_norm_eps", 1e-6},
          {"max_position_embeddings", 8192},
          {"pad_token_id", 0}};
}

// Of the model's type, its text model's.
std::vector<std::string> text_types(const std::string& type) {
  std::vector<std::string> types;
  if (const VisionFamily* family = find_vision_family(type))
    for (const Family* decoder : family->decoders) types.emplace_back(decoder->name);
  for (const TextOf& text : kTexts)
    if (type == text.whole) types.emplace_back(text.text);
  return types;
}

json text_config(const json& object, const std::vector<std::string>& types) {
  JsonReader reader(object);
  for (const char* key : kOfImages) reader.has(key);
  const json& said = reader.at(kTextConfig);
  expect_object(said, kTextConfig);
  const std::string type =
      JsonReader(said, std::string(kTextConfig) + ".").word("model_type", types, types[0]);
  json text = defaults_of(type);
  text.update(said);
  for (const char* key : {"bos_token_id", "eos_token_id", "torch_dtype", "dtype",
                          "tie_word_embeddings", "transformers_version", "quantization_config"})
    if (reader.has(key)) text[key] = reader.at(key);
  // What nobody knows is reported with the text model's.
  for (const UnknownKey& key : reader.unknown_keys())
    if (!text.contains(key.name)) text[key.name] = object.at(key.name);
  const Family& family = family_of(type);
  text["architectures"] = {family.hf_class};
  text["model_type"] = family.name;
  if (type == "gemma3_text") {
    // The whole model never caps its logits, whatever is said here.
    text["final_logit_softcapping"] = nullptr;
  } else if (&family != &kGemma4Text) {
    // Said of the mask, which is the whole model's, and of images.
    for (const char* key : {"use_bidirectional_attention", "num_image_tokens"}) text.erase(key);
  }
  return text;
}

}  // namespace

const std::vector<std::string>& whole_model_types() {
  static const std::vector<std::string> types{"gemma3",         "paligemma", "gemma4",
                                              "gemma4_unified", "llama4",    "mistral3"};
  return types;
}

std::string text_model_config(std::string_view text) {
  const json object = parse_object(text);
  const auto type = object.find("model_type");
  if (type == object.end() || !type->is_string()) return std::string(text);
  const std::vector<std::string> types = text_types(type->get<std::string>());
  return types.empty() ? std::string(text) : json_text(text_config(object, types));
}

std::optional<std::string> text_model_name(std::string_view tensor) {
  std::string_view within = tensor;
  if (within.starts_with("model.")) within.remove_prefix(6);
  for (std::string_view prefix :
       {"vision_tower.", "vision_model.", "multi_modal_projector.", "embed_vision.",
        "vision_embedder.", "audio_tower.", "embed_audio."})
    if (within.starts_with(prefix)) return std::nullopt;
  if (tensor == "language_model.lm_head.weight") return "lm_head.weight";
  for (std::string_view prefix :
       {"language_model.model.", "model.language_model.", "language_model."})
    if (tensor.starts_with(prefix)) return "model." + std::string(tensor.substr(prefix.size()));
  return std::string(tensor);
}

}  // namespace longshore::models
