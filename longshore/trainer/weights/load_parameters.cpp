#include "longshore/trainer/weights/load_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/safetensors/safetensors_float.h"
#include "longshore/models/families/fields.h"
#include "longshore/trainer/config/rope_override.h"
#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/hf_folder.h"
#include "longshore/trainer/weights/initialize.h"
#include "longshore/trainer/weights/row_norms.h"
#include "longshore/trainer/weights/saved_tensors.h"
#include "longshore/trainer/weights/stored_numbers.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using models::DecoderConfig;
using offload::Parameter;

std::string shown(double value) { return fmt::format("{:.10g}", value); }

// Calls compare(key, value here, value there) for what describes towers and projectors.
template <class Compare>
void compare_towers(const models::VisionConfig& here, const models::VisionConfig& there,
                    Compare compare) {
  for (const models::VisionField& field : models::vision_fields())
    compare(field.key, static_cast<double>(here.*field.member),
            static_cast<double>(there.*field.member));
  compare("normalization_layer_epsilon_for_vit", here.norm_epsilon, there.norm_epsilon);
  compare("mm_tokens_per_image", static_cast<double>(here.image_tokens),
          static_cast<double>(there.image_tokens));
  compare("image_token_id", static_cast<double>(here.image_token),
          static_cast<double>(there.image_token));
}

// "rope_max_timescale: 10000 here, 500000 in the checkpoint", one for each that differs.
std::vector<std::string> differences(const DecoderConfig& one, const DecoderConfig& other) {
  const DecoderConfig here = with_defaults_written_out(one),
                      there = with_defaults_written_out(other);
  std::vector<std::string> lines;
  auto compare = [&](const char* key, double a, double b) {
    if (a != b)
      lines.push_back(fmt::format("{}: {} here, {} in the checkpoint", key, shown(a), shown(b)));
  };
  for (const models::Field* field : models::decoder_fields()) {
    if (field == &models::kFullAttentionPeriod || field == &models::kNopeLayerInterval ||
        field == &models::kMoeLayerStep || field == &models::kPadToken ||
        field == &models::kMaxPositionEmbeddings)
      continue;
    // Defaults that go by others.
    if (field == &models::kQueryPreAttnScalar && here.head_dim != there.head_dim) continue;
    const bool is_global = field == &models::kGlobalHeadDim || field == &models::kGlobalKvHeads;
    if (is_global && value(*field, one) == field->unset && value(*field, other) == field->unset)
      continue;
    compare(field->key, value(*field, here), value(*field, there));
  }
  if (here.family != there.family)
    lines.push_back(fmt::format("model_type: {} here, {} in the checkpoint", one.family->name,
                                other.family->name));
  if (here.rope_scaling != there.rope_scaling)
    lines.emplace_back("rope_type and its factors: not those of the checkpoint");
  if (here.vision.has_value() != there.vision.has_value())
    lines.push_back(fmt::format("use_multimodal: {} here, {} in the checkpoint",
                                here.vision.has_value(), there.vision.has_value()));
  if (here.vision && there.vision) compare_towers(*here.vision, *there.vision, compare);
  if (here.layers == there.layers && here.windowed != there.windowed)
    lines.emplace_back(
        "full_attention_period, layer_types: other layers have a window in the checkpoint");
  if (here.layers == there.layers && here.rotated != there.rotated)
    lines.emplace_back(
        "nope_layer_interval, no_rope_layers: other layers have RoPE in the checkpoint");
  if (here.layers == there.layers && here.sparse != there.sparse)
    lines.emplace_back(
        "interleave_moe_layer_step, mlp_only_layers: other layers have experts in the checkpoint");
  return lines;
}

// Files whose headers are those of the model.
struct OpenedWeights {
  OpenedWeights(const WeightSources& from, const DecoderConfig& model,
                const offload::ParameterLayout& layout)
      : of_model(from.folder, model, from.added_rows), saved(layout, SavedIn::model) {
    check_tensors(from.folder, layout, of_model, model);
    if (!from.adapter.empty()) adapter.emplace(from.adapter, layout);
  }

  StoredWeights of_model;
  SavedTensors saved;
  std::optional<Adapter> adapter;
};

// Rows of the embedding, from element `first` of trained_tokens' on.
void read_token_rows(const OpenedWeights& opened, const DecoderConfig& model, int64_t first,
                     std::span<float> values) {
  const std::string embedding = decoder_prefix(model) + "model.embed_tokens.weight";
  while (!values.empty()) {
    const int64_t token = model.lora.trained_tokens[static_cast<size_t>(first / model.width)],
                  within = first % model.width;
    const auto count = std::min(values.size(), static_cast<size_t>(model.width - within));
    opened.of_model.read(embedding, token * model.width + within, values.first(count));
    values = values.subspan(count);
    first += static_cast<int64_t>(count);
  }
}

WeightSources sources(const Config& config) {
  return {.folder = config.load_parameters_path,
          .adapter = config.load_adapter_path,
          .seed = static_cast<uint64_t>(config.seed),
          .added_rows = config.added_rows};
}

void require_same_model(const Config& config, const DecoderConfig& model) {
  const fs::path& folder = config.load_parameters_path;
  DecoderConfig there = with_rope_override(
      config, read_hf_config(folder, unknown_keys(config), images(config)).decoder);
  there.vocabulary = std::max(there.vocabulary, config.added_rows.end());
  const std::vector<std::string> differing = differences(model, there);
  if (!differing.empty())
    throw ConfigError(location(config, "load_parameters_path") + ": " + path_text(folder) +
                      " holds another model: " + join(differing));
}

}  // namespace

std::string load_weights(const WeightSources& from, const DecoderConfig& model,
                         const offload::ParameterLayout& layout, offload::Arguments& arguments,
                         Copies copies, const ChooseBucket& writes) {
  offload::ParameterLayout written = layout;
  if (writes)
    std::erase_if(written.buckets, [&](const offload::Bucket& bucket) { return !writes(bucket); });
  const OpenedWeights opened(from, model, layout);
  const RowNorms norms(layout);
  const FillParameter fill_from_model = [&](const Parameter& parameter, int64_t first,
                                            std::span<float> values) {
    read_numbers(opened.of_model, opened.saved, parameter, first, values);
  };
  const CopyMatrix copy = [&](const Parameter& parameter, int64_t number, const WriteBytes& write) {
    return copy_matrix(opened.of_model, parameter, number, write);
  };
  data::NonFinite odd;
  std::mutex counting;
  write_parameters(
      written,
      [&](const Parameter& parameter, int64_t first, std::span<float> values) {
        if (opened.adapter && parameter.weight.of_adapter)
          return opened.adapter->read(parameter, first, values);
        if (parameter.weight.init.kind == models::Init::Kind::row_norms)
          return norms.read(parameter, first, fill_from_model, values, copy);
        if (models::is_trained_tokens(parameter.name))
          return read_token_rows(opened, model, first, values);
        if (models::is_lora_weight(parameter.name))
          return initial_values(parameter, from.seed, first, values);
        const data::NonFinite found =
            read_numbers(opened.of_model, opened.saved, parameter, first, values);
        std::lock_guard lock(counting);
        odd.nan_count += found.nan_count;
        odd.infinity_count += found.infinity_count;
      },
      arguments, copies, copy);
  int64_t elements = 0;
  for (const offload::Bucket& bucket : written.buckets)
    for (const Parameter& parameter : bucket.parameters)
      if (!models::is_lora_weight(parameter.name)) elements += parameter.tensor_shape().count();
  std::string text =
      fmt::format("weights: {}, {:.1f} M parameters", path_text(from.folder), elements / 1e6);
  if (odd != data::NonFinite{})
    text += fmt::format("; {} NaN and {} infinite", odd.nan_count, odd.infinity_count);
  const HfConfig described =
      read_hf_config(from.folder, models::UnknownKeys::ignore,
                     model.vision ? models::Images::read : models::Images::ignore);
  if (const std::string ignored = unknown_keys_text(described); !ignored.empty())
    text += "; " + ignored;
  if (const std::string left_out = opened.of_model.left_out_text(); !left_out.empty())
    text += "; " + left_out;
  if (const AddedRows& added = from.added_rows; added.count > 0)
    text += fmt::format("; added: {}, from {} on, whose rows are the mean of the others",
                        plural(added.count, "token"), added.first);
  if (opened.adapter) text += "; adapter: " + path_text(from.adapter);
  return text;
}

void require_weights(const Config& config, const DecoderConfig& model,
                     const offload::ParameterLayout& layout) {
  require_same_model(config, model);
  OpenedWeights(sources(config), model, layout);
}

std::string load_parameters(const Config& config, const DecoderConfig& model,
                            const offload::ParameterLayout& layout, offload::Arguments& arguments,
                            const ChooseBucket& writes) {
  require_same_model(config, model);
  return load_weights(sources(config), model, layout, arguments, Copies::all, writes);
}

}  // namespace longshore::trainer
