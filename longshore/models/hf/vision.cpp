#include "longshore/models/hf/vision.h"

#include "longshore/base/error.h"

namespace longshore::models {
namespace {

using nlohmann::json;

constexpr const char *kVisionConfig = "vision_config", *kTextConfig = "text_config";

int64_t size(JsonReader& reader, const char* key, int64_t otherwise, int64_t most) {
  const int64_t found = reader.integer(key, otherwise);
  if (found < 1 || found > most) reader.refuse(key, "1 to " + std::to_string(most));
  return found;
}

// With the defaults of transformers for siglip_vision_model.
void read_tower(JsonReader& reader, VisionConfig& vision) {
  reader.word("model_type", {"siglip_vision_model"}, "siglip_vision_model");
  reader.word("hidden_act", {"gelu_pytorch_tanh"}, "gelu_pytorch_tanh");
  reader.expect_off("attention_dropout");
  for (const char* key : {"vision_use_head", "num_image_tokens", "projector_hidden_act"})
    reader.has(key);
  if (reader.integer("num_channels", 3) != 3) reader.refuse("num_channels", "3");
  for (const VisionField& field : vision_fields())
    vision.*field.member = size(reader, field.hf_key, field.otherwise, field.most);
  vision.norm_epsilon = reader.positive("layer_norm_eps", 1e-6);
  if (vision.width % vision.heads != 0)
    reader.refuse("num_attention_heads",
                  "a divisor of hidden_size, " + std::to_string(vision.width));
  if (vision.image_size % vision.patch_size != 0)
    reader.refuse("patch_size", "a divisor of image_size, " + std::to_string(vision.image_size));
}

// Windows of patches are averaged, each to one of the image's rows.
void read_pooling(JsonReader& reader, VisionConfig& vision) {
  constexpr const char* kKey = "mm_tokens_per_image";
  vision.image_tokens = size(reader, kKey, 256, vision.patches());
  if (!pools_evenly(vision))
    reader.refuse(kKey, "the square of a divisor of " + std::to_string(vision.side()) +
                            ", the patches across an image");
}

int64_t image_token(JsonReader& reader, int64_t vocabulary) {
  const int64_t newer = reader.integer("image_token_id", -1);
  const int64_t token = reader.integer("image_token_index", newer);
  if (reader.has("image_token_id") && newer != token)
    reader.refuse("image_token_id", "the same as image_token_index");
  if (token < 0) reader.at("image_token_index");  // which has to be said
  if (token >= vocabulary)
    reader.refuse(reader.has("image_token_index") ? "image_token_index" : "image_token_id",
                  "an id below the text model's vocab_size, " + std::to_string(vocabulary));
  return token;
}

void expect_width(JsonReader& reader, const char* key, int64_t width) {
  if (reader.integer(key, width) != width)
    reader.refuse(key, "the text model's hidden_size, " + std::to_string(width));
}

}  // namespace

std::optional<VisionConfig> read_vision_config(const json& object, const DecoderConfig& decoder,
                                               std::vector<UnknownKey>& unknown) {
  const auto type = object.find("model_type");
  if (type == object.end() || !type->is_string()) return std::nullopt;
  const VisionFamily* family = find_vision_family(type->get<std::string>());
  if (!family) return std::nullopt;
  VisionConfig vision{.family = family};
  JsonReader whole(object);
  const json& said = whole.at(kVisionConfig);
  expect_object(said, kVisionConfig);
  JsonReader tower(said, std::string(kVisionConfig) + ".");
  read_tower(tower, vision);
  expect_width(tower, "projection_dim", decoder.width);
  expect_width(whole, "projection_dim", decoder.width);
  if (family->pools)
    read_pooling(whole, vision);
  else
    vision.image_tokens = vision.patches();
  vision.image_token = image_token(whole, decoder.vocabulary);
  for (const UnknownKey& key : tower.unknown_keys()) unknown.push_back(key);
  return vision;
}

std::optional<std::string> image_model_name(std::string_view tensor) {
  const auto renamed = [&](std::string_view from, std::string_view to) {
    return std::string(to) + std::string(tensor.substr(from.size()));
  };
  constexpr std::string_view kTower = "vision_tower.", kWhole = "vision_tower.vision_model.";
  // The first that fits: what stands in files, and what it is here.
  constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {
      {"model.vision_tower.vision_model.", kWhole},
      {"model.vision_tower.", kWhole},
      {kWhole, kWhole},
      {kTower, kWhole},
      {"model.multi_modal_projector.", "multi_modal_projector."},
      {"multi_modal_projector.", "multi_modal_projector."},
      {"language_model.model.", "language_model.model."},
      {"language_model.lm_head.", "language_model.lm_head."},
      {"model.language_model.", "language_model.model."},
      {"language_model.", "language_model.model."},
      {"lm_head.", "language_model.lm_head."},
  };
  for (const auto& [from, to] : kPrefixes) {
    if (!tensor.starts_with(from)) continue;
    std::string name = renamed(from, to);
    if (name.starts_with(std::string(kWhole) + "head.")) return std::nullopt;
    return name;
  }
  return std::string(tensor);
}

}  // namespace longshore::models
