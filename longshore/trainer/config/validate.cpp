#include "longshore/trainer/config/validate.h"

#include <algorithm>
#include <array>
#include <climits>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/integer.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/files/text_format.h"
#include "longshore/models/families/decoder.h"
#include "longshore/models/families/fields.h"
#include "longshore/offload/policy/policy.h"
#include "longshore/trainer/config/eval_datasets.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/keys.h"
#include "longshore/trainer/config/model_keys.h"
#include "longshore/trainer/config/objective.h"
#include "longshore/trainer/config/yaml.h"

namespace longshore::trainer {
namespace {

[[noreturn]] void refuse(const Config& config, const std::string& key,
                         const std::string& expectation) {
  throw ConfigError(location(config, key) + ": found " +
                    excerpt(value_text(*find_key(key), config)) + ", expected " + expectation);
}

// For a key that goes by figures of a profile: "memory is".
void require_profile(const Config& config, const std::string& figures, const std::string& key) {
  if (!config.hardware.empty()) return;
  refuse(config, "hardware",
         "a profile, whose " + figures + " what " + described(config, key) +
             " goes by: hardware=NAME names one, and for plan --hardware NAME (plan --measure "
             "makes that of this machine)");
}

// Whether the model uses the key. Toys have no heads and no vocabulary.
bool is_read(const Key& key, const Config& config) {
  static const std::set<std::string> kOfToyA{"model_type", "base_emb_dim",
                                             "base_num_decoder_layers", "base_mlp_dim"};
  if (!is_toy(config) || key.section != Section::model) return true;
  bool is_toy_b_inner = config.toy == Toy::b && key.name == "base_mlp_dim";
  return kOfToyA.contains(key.name) && !is_toy_b_inner;
}

void check_ranges(const Config& config) {
  const Config defaults;
  std::vector<std::string> missing;
  for (const Key& key : config_keys()) {
    if (is_valid(key, config) || !is_read(key, config)) continue;
    if (value_text(key, config) != value_text(key, defaults))
      refuse(config, key.name, expected(key));
    missing.push_back(key.name);
  }
  if (missing.empty()) return;
  throw ConfigError((config.config_file.empty() ? "config" : config.config_file) + ": found no " +
                    join(missing) +
                    ", expected a whole model; model_name, or a load_parameters_path with a "
                    "config.json, brings all its keys");
}

// A list that says something of each layer, in one of two words; `period` says the same for all.
void check_list_of_layers(const Config& config, const std::string& key,
                          const std::vector<std::string>& list,
                          const std::array<std::string, 2>& words, const models::Field& period) {
  if (list.empty()) return;
  for (const std::string& word : list)
    if (std::ranges::find(words, word) == words.end())
      throw ConfigError(location(config, key) + ": found " + excerpt(word) + ", expected " +
                        words[0] + " or " + words[1]);
  if (std::ssize(list) != config.model.layers) {
    refuse(config, key,
           "as many as " + described(config, "base_num_decoder_layers") + " says, found " +
               std::to_string(list.size()));
  }
  if (value(period, config.model) > 0) {
    refuse(config, period.key, "0 with " + key + ", which say it");
  }
}

void check_model(const Config& config) {
  if (is_toy(config)) return;
  if (config.rope_low_freq_factor > config.rope_high_freq_factor) {
    refuse(config, "rope_low_freq_factor", "at most " + described(config, "rope_high_freq_factor"));
  }
  if (config.rope_type == RopeType::unscaled && config.rope_factor != 1) {
    refuse(config, "rope_factor", "1 with " + described(config, "rope_type"));
  }
  if (config.beta_slow >= config.beta_fast) {
    refuse(config, "beta_slow", "less than " + described(config, "beta_fast"));
  }
  if (config.rope_type == RopeType::yarn && config.model.rope_base == 1) {
    refuse(config, "rope_max_timescale", "more than 1 with " + described(config, "rope_type"));
  }
  if (config.model.temperature_beta > 0 && !original_length(rope_scaling(config))) {
    refuse(config, "rope_type", "llama3 or yarn with " + described(config, "llama_4_scaling_beta"));
  }
  if (config.model.full_attention_period > 0 && config.model.window == 0) {
    refuse(config, "full_attention_period", "0 with " + described(config, "sliding_window_size"));
  }
  check_list_of_layers(config, "layer_types", config.layer_types,
                       {models::kFullAttention, models::window_word(*config.model.family)},
                       models::kFullAttentionPeriod);
  if (!config.layer_types.empty() && config.model.window == 0) {
    refuse(config, "layer_types", "none with " + described(config, "sliding_window_size"));
  }
  check_list_of_layers(config, "no_rope_layers", config.no_rope_layers, {"1", "0"},
                       models::kNopeLayerInterval);
  if (config.model.pad_token.value_or(0) >= config.model.vocabulary) {
    refuse(config, "pad_token_id", "less than " + described(config, "vocab_size"));
  }
  if (config.model.head_dim % 2 != 0) refuse(config, "head_dim", "an even number");
  for (const models::Field* heads : {&models::kKvHeads, &models::kGlobalKvHeads})
    if (const auto count = static_cast<int64_t>(value(*heads, config.model));
        count > 0 && config.model.query_heads % count != 0)
      refuse(config, "base_num_query_heads", "a multiple of " + described(config, heads->key));
  if (models::head_dim(config.model, false) % 2 != 0)
    refuse(config, "global_head_dim", "an even number");
  for (const std::string& text : config.mlp_only_layers) {
    const std::optional<int64_t> layer = integer<int64_t>(text);
    if (!layer || *layer < 0 || *layer >= config.model.layers || text != std::to_string(*layer))
      refuse(config, "mlp_only_layers",
             "numbers of layers, 0 to " + std::to_string(config.model.layers - 1));
  }
  if (!config.mlp_only_layers.empty() && config.model.moe_layer_step > 1) {
    refuse(config, "interleave_moe_layer_step", "1 with mlp_only_layers, which say it");
  }
  if (config.model.moe_layer_step > 1 && config.model.experts == 0) {
    refuse(config, "interleave_moe_layer_step", "1 with " + described(config, "num_experts"));
  }
  const bool may_have_experts = !config.model.family->layer.experts.router.empty(),
             may_have_none = !may_have_experts || config.model.family->layer.experts.is_beside();
  if (config.model.experts > 0 ? !may_have_experts : !may_have_none) {
    refuse(config, "num_experts",
           (may_have_experts ? "at least 1 with " : "0 with ") + described(config, "model_type"));
  }
  for (const models::Field* field : {&models::kUsesQkNorm, &models::kUnrotatedTemperature})
    if (value(*field, config.model) != 0 && !find_field(*config.model.family, *field))
      refuse(config, field->key, "false with " + described(config, "model_type"));
  const bool clamps = config.model.family->layer.activation == models::Activation::clamped_silu;
  if ((config.model.activation_limit > 0) != clamps) {
    refuse(config, "mlp_activations_limit",
           (clamps ? "a number above 0 with " : "0 with ") + described(config, "model_type"));
  }
  if (config.model.experts > 0 &&
      (config.model.experts_per_token < 1 || config.model.experts_per_token > config.model.experts))
    refuse(config, "num_experts_per_tok", "1 to " + described(config, "num_experts"));
  // Rows of experts are numbered in 32 bits.
  if (config.per_device_batch_size * config.max_target_length * config.model.experts_per_token >
      INT32_MAX)
    refuse(config, "num_experts_per_tok",
           "fewer than 2^31 rows with " + described(config, "per_device_batch_size") + " and " +
               described(config, "max_target_length"));
  models::DecoderConfig layers = config.model;
  layers.windowed = windowed(config);
  if (const std::optional<int64_t> layer = models::layer_without_keys(layers))
    refuse(config, "num_kv_shared_layers",
           "fewer: no layer before those has keys for layer " + std::to_string(*layer));
  const int64_t rotary_dim = models::rotary_dim(config.model, true);
  if (config.rope_type != RopeType::proportional && (rotary_dim < 2 || rotary_dim % 2 != 0)) {
    refuse(config, "partial_rotary_factor", "an even part of " + described(config, "head_dim"));
  }
}

void check_tower(const Config& config) {
  const models::VisionConfig& vision = config.vision;
  if (vision.width % vision.heads != 0) {
    refuse(config, "num_attention_heads_for_vit",
           "a divisor of " + described(config, "hidden_size_for_vit"));
  }
  if (vision.image_size % vision.patch_size != 0) {
    refuse(config, "patch_size_for_vit", "a divisor of " + described(config, "image_size_for_vit"));
  }
  if (vision.image_token < 0 || vision.image_token >= config.model.vocabulary) {
    refuse(config, "image_token_id",
           "an id below " + described(config, "vocab_size") + ", for " +
               described(config, "use_multimodal"));
  }
  if (models::vision_family_of(*config.model.family)->pools && !models::pools_evenly(vision)) {
    refuse(config, "mm_tokens_per_image",
           "the square of a divisor of " + std::to_string(vision.side()) +
               ", the patches across an image");
  }
}

void check_images(const Config& config) {
  if (!config.use_multimodal) return;
  if (is_toy(config) || !models::vision_family_of(*config.model.family)) {
    std::vector<std::string> families;
    for (const models::Family* family : models::families())
      if (models::vision_family_of(*family)) families.emplace_back(family->name);
    refuse(
        config, "use_multimodal",
        "false with " + described(config, "model_type") + "; images are read by " + join(families));
  }
  check_tower(config);
  if (config.dataset_type == DatasetType::tokens) {
    refuse(config, "dataset_type",
           "documents or synthetic, with " + described(config, "use_multimodal") +
               ": a stream of text has no place for images");
  }
}

void check_added_tokens(const Config& config) {
  if (config.add_tokens.empty()) return;
  if (is_toy(config)) refuse(config, "add_tokens", "none with " + described(config, "model_type"));
  if (std::set(config.add_tokens.begin(), config.add_tokens.end()).size() !=
      config.add_tokens.size())
    refuse(config, "add_tokens", "each token once");
  if (config.tokenizer_path.empty())
    refuse(config, "tokenizer_path",
           "a path, to the tokenizer of " + described(config, "add_tokens"));
}

void check_training(const Config& config) {
  if (config.lora_rank > 0 && is_toy(config)) {
    refuse(config, "lora_rank", "0 with " + described(config, "model_type"));
  }
  if (config.lora_rank > 0 && config.lora_targets.empty()) {
    refuse(config, "lora_targets", "projections, for " + described(config, "lora_rank"));
  }
  const std::vector<std::string> known = known_lora_targets(config);
  for (const std::string& target : lora_targets(config))
    if (config.lora_rank > 0 && std::ranges::find(known, target) == known.end())
      refuse(config, "lora_targets",
             "some of " + join(known) + " with " + described(config, "model_type"));
  const models::ExpertTraits& experts = config.model.family->layer.experts;
  if (config.lora_rank > 0 && config.lora_per_expert && config.model.experts > 0 &&
      !experts.are_numbered()) {
    refuse(config, "lora_per_expert",
           "false with " + described(config, "model_type") + ", whose experts are saved as one");
  }
  const bool adapts_experts =
      config.lora_rank > 0 && std::ranges::any_of(lora_targets(config), models::is_expert_target);
  if (adapts_experts && config.lora_dropout > 0)
    refuse(
        config, "lora_dropout",
        "0 with adapters on experts, as in peft; nearest: lora_targets without those of experts");
  if (adapts_experts && config.use_dora)
    refuse(config, "use_dora",
           "false with adapters on experts, as in peft; nearest: lora_targets without those of "
           "experts");
  const std::vector<std::string> targets = lora_targets(config);
  const bool adapts_head =
      config.lora_rank > 0 && std::ranges::find(targets, models::kHeadModule) != targets.end();
  if (config.lora_rank > 0 && !trained_tokens(config).empty() &&
      std::ranges::find(config.modules_to_save, models::kEmbeddingModule) !=
          config.modules_to_save.end())
    refuse(config, "trainable_token_indices", "none with embed_tokens among modules_to_save");
  if (adapts_head && config.use_dora)
    refuse(config, "use_dora",
           "false with an adapter on lm_head, whose logits never exist at once");
  if (adapts_head && std::ranges::find(config.modules_to_save, models::kHeadModule) !=
                         config.modules_to_save.end())
    refuse(config, "modules_to_save", "lm_head only without an adapter on it");
  if (config.lora_rank > 0 && config.model.tied_embeddings &&
      std::ranges::find(config.modules_to_save, models::kHeadModule) !=
          config.modules_to_save.end())
    refuse(config, "modules_to_save",
           "embed_tokens alone with " + described(config, "logits_via_embedding") +
               ": embedding and head are one");
  if (config.lora_rank > 0 && rank_pattern(config).size() + alpha_pattern(config).size() > 0 &&
      config.lora_per_expert && config.model.experts > 0)
    refuse(config, "lora_per_expert", "false with a rank_pattern or an alpha_pattern");
  check_added_tokens(config);
  if (!config.load_adapter_path.empty() && config.load_parameters_path.empty()) {
    refuse(config, "load_parameters_path",
           "the weights that the adapter is for, with " + described(config, "load_adapter_path"));
  }
}

void check_parallelism(const Config& config) {
  if (config.ici_data_parallelism == -1 && config.ici_fsdp_parallelism == -1)
    refuse(
        config, "ici_data_parallelism",
        "a number with " + described(config, "ici_fsdp_parallelism") + ": only one can be filled");
  if (config.ici_data_parallelism != 1 && config.dcn_fsdp_parallelism > 1)
    refuse(config, "dcn_fsdp_parallelism",
           "1 with " + described(config, "ici_data_parallelism") +
               ": replicas are within a node only where shards are; nearest: "
               "ici_fsdp_parallelism and dcn_data_parallelism");
}

void check_offload(const Config& config) {
  if (config.offload_layers > config.model.layers) {
    refuse(config, "offload_layers",
           "at most " + described(config, "base_num_decoder_layers") + ", or -1");
  }
  if (config.parameter_layers_on_device > config.model.layers)
    refuse(config, "parameter_layers_on_device",
           "at most " + described(config, "base_num_decoder_layers") + ", or auto");
  if (!config.parameter_layers_on_device && config.parameter_memory_host_offload)
    require_profile(config, "memory is", "parameter_layers_on_device");
  if (config.optimizer_compute == OptimizerCompute::host && !config.optimizer_memory_host_offload) {
    refuse(config, "optimizer_compute",
           "device, or host with optimizer_memory_host_offload: true: the host updates what it "
           "holds");
  }
}

void check_optimizer(const Config& config) {
  if (config.opt_type == OptType::sgd && config.sgd_nesterov && config.sgd_momentum == 0) {
    refuse(config, "sgd_nesterov", "false with " + described(config, "sgd_momentum"));
  }
  if (config.on_non_finite == OnNonFinite::skip && config.gradient_clipping_threshold == 0) {
    refuse(config, "on_non_finite",
           "stop with " + described(config, "gradient_clipping_threshold") +
               ": without clipping, weights are updated before all of the gradient is known");
  }
  if (config.on_non_finite == OnNonFinite::skip &&
      config.gradient_clipping == GradientClipping::previous_global_norm) {
    refuse(config, "on_non_finite",
           "stop with " + described(config, "gradient_clipping") +
               ": weights are updated before all of the gradient is known");
  }
}

void check_dtypes(const Config& config) {
  if (config.weight_dtype == WeightDtype::bfloat16 && config.dtype == ComputeDtype::float32) {
    refuse(config, "weight_dtype", "float32 with " + described(config, "dtype"));
  }
  if (config.frozen_weight_dtype == FrozenWeightDtype::automatic) return;
  if (config.lora_rank == 0 && config.load_adapter_path.empty()) {
    refuse(config, "frozen_weight_dtype", "auto with " + described(config, "lora_rank"));
  }
  if (!config.trainable_parameters_mask.empty()) {
    refuse(config, "frozen_weight_dtype",
           "auto with a trainable_parameters_mask, of which checkpoints hold the whole model");
  }
}

// Where a tokenizer was looked for, of a config that names none.
std::string looked_for_tokenizer(const Config& config) {
  if (!config.model_name.empty() || config.load_parameters_path.empty() ||
      config.origins.contains("tokenizer_path"))
    return "";
  return "; " + path_text(config.load_parameters_path) + ", that of " +
         location(config, "load_parameters_path") +
         ", holds no tokenizer.json and no tokenizer.model";
}

void check_room_for_images(const Config& config) {
  const models::VisionConfig& vision = config.vision;
  const int64_t tokens = rows_of_image(*models::vision_family_of(*config.model.family), vision);
  if (tokens * config.max_num_images_per_example >= config.max_target_length) {
    refuse(config, "max_target_length",
           "more than " + std::to_string(config.max_num_images_per_example) + " times the " +
               std::to_string(tokens) + " tokens of an image, for " +
               described(config, "max_num_images_per_example"));
  }
}

void check_files(const Config& config) {
  if (config.dataset_path.empty()) {
    refuse(config, "dataset_path", "a path, for " + described(config, "dataset_type"));
  }
  auto weighted = std::ranges::count_if(
      config.dataset_path, [](const DatasetFile& file) { return file.weight.has_value(); });
  if (weighted != 0 && weighted != std::ssize(config.dataset_path)) {
    refuse(config, "dataset_path", "a weight for each file, or for none");
  }
  if (std::optional<std::filesystem::path> text = text_file(config);
      text && config.tokenizer_path.empty()) {
    refuse(config, "tokenizer_path",
           "a path, to tokenize " + path_text(*text) + looked_for_tokenizer(config));
  }
  const std::vector<std::filesystem::path> paths = data_files(config);
  const bool has_examples = std::ranges::any_of(paths, data::has_records);
  const bool may_have_messages = std::ranges::any_of(
      paths, [](const auto& path) { return data::has_records(path) || !data::is_text(path); });
  if (chat_template_choice(config).is_named() && !may_have_messages) {
    refuse(config, "chat_template", "none, or a file in dataset_path that is not plain text");
  }
  if (config.chat_template == data::kNoTemplate) {
    const std::string expected = "none, with " + described(config, "chat_template");
    if (!config.chat_template_kwargs.empty()) refuse(config, "chat_template_kwargs", expected);
    if (!config.chat_template_date.empty()) refuse(config, "chat_template_date", expected);
  }
  if (config.train_on != data::TrainOn::assistant && !has_examples) {
    refuse(config, "train_on", "assistant, or a file of examples, such as .jsonl, in dataset_path");
  }
  const std::vector<std::string>& columns = config.train_data_columns;
  const std::set<std::string> names(columns.begin(), columns.end());
  if (example_kind(config) == data::ExampleKind::rollout) {
    if (!columns.empty() && (columns.size() != 3 || names.size() < columns.size()))
      refuse(config, "train_data_columns",
             "three different columns, of prompts, of completions and of advantages");
  } else if (is_preference(config)) {
    if (columns.size() == 1 || columns.size() > 3 || names.size() < columns.size())
      refuse(
          config, "train_data_columns",
          "two different columns, of chosen and rejected answers, or three, with that of prompts "
          "first");
  } else if (columns.size() > 2 || names.size() < columns.size()) {
    refuse(config, "train_data_columns", "one column, or two: of prompts and of completions");
  }
  if (!config.train_data_columns.empty() && !has_examples) {
    refuse(config, "train_data_columns",
           "none, or a file of examples, such as .jsonl, in dataset_path");
  }
  if (config.skip_bad_lines && !has_examples) {
    refuse(config, "skip_bad_lines",
           "false, or a file of examples, such as .jsonl, in dataset_path");
  }
  if (config.add_bos_eos != data::AddBosEos::missing && !text_file(config)) {
    refuse(config, "add_bos_eos",
           "missing, or a file of text, such as .jsonl or .txt, in dataset_path");
  }
  bool has_documents = config.dataset_type == DatasetType::documents;
  if (!config.packing && !has_documents) {
    refuse(config, "packing", "true with " + described(config, "dataset_type"));
  }
  if (config.excess_length_strategy != data::ExcessLength::truncate && !has_documents) {
    refuse(config, "excess_length_strategy", "truncate with " + described(config, "dataset_type"));
  }
}

void check_reference(const Config& config) {
  const Reference reference = reference_of(config);
  const bool is_of_adapter =
      reference == Reference::adapter_off || reference == Reference::adapter_start;
  if (is_of_adapter && !has_adapter(config))
    refuse(config, "reference", "frozen with " + described(config, "lora_rank"));
  if (reference == Reference::adapter_off && trains_beside_adapter(config))
    refuse(config, "reference",
           "adapter_start with " +
               described(config, config.modules_to_save.empty() ? "trainable_parameters_mask"
                                                                : "modules_to_save") +
               ": of what trains beside the adapter nothing else is kept");
  const bool has_own_weights =
      reference == Reference::frozen && !config.reference_parameters_path.empty();
  if (reference == Reference::frozen && !has_own_weights && !config.load_adapter_path.empty())
    refuse(config, "reference",
           "adapter_start or adapter_off with " + described(config, "load_adapter_path"));
  if (reference == Reference::precomputed && config.shuffle_window > 0)
    refuse(config, "shuffle_window",
           "0 with " + described(config, "reference") +
               ", of which all rows are read before the first step");
  const bool is_as_it_began = reference != Reference::adapter_off && !has_own_weights;
  if (is_as_it_began && !config.load_full_state_path.empty())
    refuse(config, "load_full_state_path",
           "load_parameters_path, whose weights the reference of " +
               described(config, "objective") + " can be read from again");
}

void check_objective(const Config& config) {
  if (config.objective == Objective::distill && config.dataset_type != DatasetType::documents)
    refuse(config, "dataset_type", "documents with " + described(config, "objective"));
  if (config.objective == Objective::distill && config.distill_top_k > config.model.vocabulary)
    refuse(config, "distill_top_k",
           "at most the vocab_size, " + std::to_string(config.model.vocabulary));
  if (!learns_answers(config)) return;
  if (config.dataset_type != DatasetType::documents)
    refuse(config, "dataset_type", "documents with " + described(config, "objective"));
  if (config.train_on == data::TrainOn::all)
    refuse(config, "train_on",
           "assistant or last_assistant with " + described(config, "objective") +
               ": answers alone are learnt; nearest: assistant");
  if (config.excess_length_strategy == data::ExcessLength::split)
    refuse(config, "excess_length_strategy",
           "truncate or skip with " + described(config, "objective"));
  if (config.objective == Objective::kto && !config.packing)
    refuse(config, "packing",
           "true with " + described(config, "objective") +
               ": answers are compared with those to other prompts of their row");
  if (config.objective == Objective::kto && config.kto_desirable_weight == 0 &&
      config.kto_undesirable_weight == 0)
    refuse(config, "kto_desirable_weight", "more than 0, or kto_undesirable_weight is");
  if (config.preference_label_smoothing >= 0.5)
    refuse(config, "preference_label_smoothing",
           "less than 0.5, or the rejected answers would be preferred");
  if (has_reference(config)) check_reference(config);
}

void check_epochs(const Config& config) {
  if (config.num_epoch == 0) return;
  if (config.dataset_type == DatasetType::synthetic)
    refuse(config, "num_epoch", "0 with " + described(config, "dataset_type"));
  if (std::ranges::any_of(config.dataset_path,
                          [](const DatasetFile& file) { return file.weight.has_value(); }))
    refuse(config, "num_epoch", "0 with weights in dataset_path: files end at different times");
  if (config.shuffle_window > 0)
    refuse(config, "num_epoch",
           "0 with " + described(config, "shuffle_window") +
               ": rows are counted as they are read; nearest: steps");
}

void check_data(const Config& config) {
  check_epochs(config);
  if (config.dataset_type == DatasetType::synthetic) return;
  check_files(config);
  const bool is_known = !is_toy(config) && models::vision_family_of(*config.model.family);
  if (config.use_multimodal && is_known) check_room_for_images(config);
}

// That evaluations give what `key` goes by.
void check_metric(const Config& config, const std::string& key) {
  const std::string without = (key == "keep_best" ? "none" : "0") + std::string(" without ");
  switch (best_metric(config)) {
    case KeepBest::choices_accuracy:
    case KeepBest::choices_accuracy_over_characters:
    case KeepBest::choices_accuracy_over_bytes:
      if (!asks_choices(config))
        refuse(config, key, without + "questions; nearest: eval_choices_path");
      return;
    case KeepBest::validation_rewards_accuracies:
    case KeepBest::validation_rewards_margins:
      if (!is_preference(config))
        refuse(config, key, without + "answers that are compared; nearest: objective: dpo");
      break;
    default:
      break;
  }
  if (!evaluates(config))
    refuse(config, key,
           without +
               "validation text; nearest: eval_dataset_path or eval_fraction, with dataset_type "
               "documents or tokens");
}

// Its metric is that of evaluations during the run.
void check_best(const Config& config) {
  const bool stops_early = config.early_stopping_patience > 0;
  if (config.keep_best == KeepBest::none && !stops_early) return;
  const std::string key =
      config.keep_best == KeepBest::none ? "early_stopping_patience" : "keep_best";
  check_metric(config, key);
  if (!config.eval_interval)
    refuse(config, "eval_interval",
           "a number of steps, for " + described(config, key) +
               "; nearest: " + std::to_string(std::max(config.steps / 10, int64_t{1})));
  if (config.keep_best != KeepBest::none && !config.enable_checkpointing)
    refuse(config, "keep_best",
           "none with " + described(config, "enable_checkpointing") + ": nothing is saved");
}

void check_evaluation(const Config& config) {
  const bool has_text = !config.eval_dataset_path.empty() || config.eval_fraction > 0;
  if (config.eval_interval && !has_text && config.eval_prompts_path.empty() &&
      config.eval_choices_path.empty()) {
    refuse(config, "eval_dataset_path", "a path, for " + described(config, "eval_interval"));
  }
  check_best(config);
  named_eval_datasets(config);
  if (config.eval_fraction == 0) return;
  if (!config.eval_dataset_path.empty())
    refuse(config, "eval_fraction", "0 with " + described(config, "eval_dataset_path"));
  if (config.dataset_type == DatasetType::tokens)
    refuse(config, "eval_fraction",
           "0 with " + described(config, "dataset_type") + ", where text has no documents");
  if (config.shuffle_window > 0)
    refuse(config, "eval_fraction",
           "0 with " + described(config, "shuffle_window") +
               ": files are read as they are needed; nearest: eval_dataset_path, of a file that is "
               "not trained on");
}

void check_choices(const Config& config) {
  if (config.eval_choices_path.empty()) return;
  if (config.use_multimodal)
    refuse(config, "eval_choices_path",
           "none with " + described(config, "use_multimodal") + ": choices are text alone");
  if (!data::has_records(config.eval_choices_path))
    refuse(config, "eval_choices_path",
           "a file of records, such as .jsonl, with prompt, choices and answer");
  if (config.tokenizer_path.empty() && config.dataset_type != DatasetType::synthetic &&
      !text_file(config))
    refuse(config, "tokenizer_path",
           "a path, for " + described(config, "eval_choices_path") + looked_for_tokenizer(config));
}

void check_sample(const Config& config) {
  if (config.sample_tokens > 0 && config.use_multimodal) {
    refuse(config, "sample_tokens",
           "0 with " + described(config, "use_multimodal") + ": a sample is of text alone");
  }
  if (config.sample_tokens == 0 && !config.eval_prompts_path.empty()) {
    refuse(config, "sample_tokens",
           "more than 0, for " + described(config, "eval_prompts_path") + "; nearest: 64");
  }
  if (!config.eval_prompts_path.empty() && !data::is_text(config.eval_prompts_path)) {
    refuse(config, "eval_prompts_path",
           "a file of records, such as .jsonl, with prompt or messages, or a .txt");
  }
  if (config.sample_tokens == 0 || !config.tokenizer_path.empty()) return;
  const bool reads_tokens = config.dataset_type != DatasetType::synthetic;
  if (reads_tokens && text_file(config)) return;  // said of that
  refuse(config, "tokenizer_path",
         "a path, for " + described(config, "sample_tokens") +
             (reads_tokens ? looked_for_tokenizer(config) : ""));
}

void check_report(const Config& config) {
  for (const std::string& text : config.memory_report_steps) {
    const std::optional<int64_t> step = integer<int64_t>(text);
    if (!step || *step < 0 || *step >= kMaxSteps || text != std::to_string(*step))
      refuse(config, "memory_report_steps", "numbers of steps, from 0");
  }
}

void require_policy_for_vit(const Config& config) {
  std::vector<std::string> names;
  for (const offload::PolicyInfo& policy : offload::policies())
    if (policy.name != offload::kCustom) names.emplace_back(policy.name);
  const std::string& name = config.remat_policy_for_vit;
  if (std::ranges::find(names, name) == names.end())
    refuse(config, "remat_policy_for_vit",
           "one of " + join(names) + nearest_help(nearest(name, names)));
}

void check_run(const Config& config) {
  bool is_folder_name = config.run_name.find('/') == std::string::npos && config.run_name != "." &&
                        config.run_name != ".." && config.run_name.size() <= NAME_MAX &&
                        printable(config.run_name) == config.run_name;
  if (!is_folder_name) {
    refuse(config, "run_name", "the printable name of one folder inside base_output_directory");
  }
  if (config.run_name == kTokensFolder) {
    refuse(config, "run_name", "another name: tokenized texts of all runs are there");
  }
  if (config.base_output_directory.empty()) refuse(config, "base_output_directory", "a path");
}

}  // namespace

void validate_remat(const Config& config) {
  with_origin(config, [&] { offload::require_policy_name(config.remat_policy); });
  require_policy_for_vit(config);
  bool is_auto = config.remat_policy == offload::kAuto;
  for (const auto& [label, actions] : config.label_actions) {
    if (config.remat_policy != offload::kCustom && !is_auto)
      refuse(config, label,
             "this key only with remat_policy: custom or auto, not with " +
                 described(config, "remat_policy"));
    if (is_auto && actions.size() > 1)
      refuse(config, label, "one action, which stays, with " + described(config, "remat_policy"));
  }
  if (is_auto) require_profile(config, "times are", "remat_policy");
  if (config.auto_micro_batch && !is_auto)
    refuse(config, "auto_micro_batch",
           "false, or remat_policy: auto, not " + described(config, "remat_policy"));
}

void require_tokens_of_batch(const Config& config) {
  if (config.per_device_batch_size * config.max_target_length > kMaxTokens)
    refuse(config, "per_device_batch_size",
           "at most " + std::to_string(kMaxTokens) + " tokens with " +
               described(config, "max_target_length"));
}

void require_layers_on_device(const Config& config, const std::filesystem::path& model,
                              int64_t layers) {
  constexpr const char* kKey = "parameter_layers_on_device";
  if (!config.parameter_layers_on_device)
    refuse(config, kKey, "a number: auto goes by a profile, which is for train and plan");
  if (config.parameter_layers_on_device > layers)
    refuse(config, kKey,
           "at most " + std::to_string(layers) + ", the layers of " + path_text(model));
}

namespace {

using Check = void (*)(const Config&);

void find_faults(const Config& config, std::initializer_list<Check> checks, ProblemList& problems) {
  for (const Check check : checks) problems.holds([&] { check(config); });
}

void refuse_if_any(const ProblemList& problems) {
  if (!problems.empty()) throw ConfigError(problems.text());
}

}  // namespace

void find_other_faults(const Config& config, ProblemList& problems) {
  find_faults(
      config,
      {check_run, check_training, check_parallelism, check_optimizer, check_dtypes, check_objective,
       check_data, check_evaluation, check_choices, check_sample, check_report},
      problems);
}

void find_model_faults(const Config& config, ProblemList& problems) {
  // The others count on it.
  if (problems.holds([&] { check_ranges(config); }))
    find_faults(config, {check_model, check_images, require_tokens_of_batch, check_offload},
                problems);
}

void find_remat_faults(const Config& config, ProblemList& problems) {
  find_faults(config, {validate_remat}, problems);
}

void validate(const Config& config) {
  ProblemList problems;
  for (const auto find : {find_model_faults, find_other_faults, find_remat_faults})
    find(config, problems);
  refuse_if_any(problems);
}

void validate_but_remat(const Config& config) {
  ProblemList problems;
  for (const auto find : {find_model_faults, find_other_faults}) find(config, problems);
  refuse_if_any(problems);
}

}  // namespace longshore::trainer
