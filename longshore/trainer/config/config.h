// The config of a run, with the origin of every value.
//
// Configs are checked strictly. An unknown key, a wrong type, a value out of range or two values
// that contradict each other throw ConfigError, which names the file and line (or the command
// line), the key, what was found, what was expected, and the nearest valid choice. The table in
// keys.cpp defines the meaning and the range of each key, and the struct below its default;
// config_help() shows all of these.
//
// Values come from these sources, of which later ones win: the defaults, the file named by
// base_config, the model's file, the file's own keys, the command line. model_name replaces every
// model key that was set before it. So a recipe may override its model's keys, and nothing remains
// of a model if another one is named later.
//
// A relative path in a file is relative to the folder that holds configs/, one on the command line
// to the working directory. Config holds absolute paths; an empty path means that none was given.
//
// Sizes are bounded so that their products (the bytes of all parameters or activations) fit in
// int64_t.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/images/decode_image.h"
#include "longshore/data/rows/document_rows.h"
#include "longshore/data/text/chat_template_choice.h"
#include "longshore/data/text/train_on.h"
#include "longshore/data/tokenizers/add_bos_eos.h"
#include "longshore/models/families/decoder_config.h"
#include "longshore/models/families/quantization.h"
#include "longshore/models/ops/update/state_format.h"
#include "longshore/trainer/config/added_rows.h"

namespace longshore::trainer {

enum class BackendChoice { automatic, cpu, cuda, cuda_composed };
// What model_type names beside the families of decoders: see longshore/models/families/toys.h.
enum class Toy { none, a, b };
// The word of lora_targets for all linear layers.
inline constexpr const char* kAllLinear = "all-linear";

enum class RopeType { unscaled, linear, llama3, yarn, proportional };
enum class ComputeDtype { automatic, float32, bfloat16 };
// What frozen matrices of linear layers are stored in; automatic: as the folder of weights has
// those of fewer than 16 bits, and others in the dtype that is computed in.
enum class FrozenWeightDtype : uint8_t { automatic, float32, bfloat16, fp8, int8, nf4, mxfp4 };
enum class WeightDtype { float32, bfloat16 };
enum class OptType { adamw, lion, sgd };
enum class OptimizerCompute { device, host };
enum class GradientClipping { global_norm, previous_global_norm };
enum class OnNonFinite { stop, skip };
enum class DatasetType { synthetic, tokens, documents };
// What is learnt: text, what a teacher says of it, preferences between two answers to a prompt, or
// from answers that a policy has drawn.
enum class Objective : uint8_t { sft, distill, dpo, ipo, orpo, simpo, kto, policy_gradient };
enum class DistillLoss : uint8_t { forward_kl, reverse_kl };
enum class PolicyLoss : uint8_t { grpo, dapo, gspo };
enum class DpoLoss : uint8_t { sigmoid, robust, hinge };
enum class LengthNormalization : uint8_t { automatic, off, on };
// What a preference is measured against; see docs/preferences.md.
enum class Reference : uint8_t { automatic, adapter_off, adapter_start, frozen, precomputed };
// The metric by which the best checkpoint of a run is known, as metrics.jsonl names it.
enum class KeepBest : uint8_t {
  none,
  validation_loss,
  validation_rewards_accuracies,
  validation_rewards_margins,
  choices_accuracy,
  choices_accuracy_over_characters,
  choices_accuracy_over_bytes
};

struct DatasetFile {
  std::filesystem::path path;
  std::optional<double> weight;

  bool operator==(const DatasetFile&) const = default;
};

// A set of validation text: a file, or the files of a folder or a pattern.
struct EvalDataset {
  std::string name;  // "": see named_eval_datasets()
  std::filesystem::path path;

  bool operator==(const EvalDataset&) const = default;
};

struct Config {
  // run
  std::string model_name;  // the file of configs/models that the sizes are from, or empty
  std::string run_name;
  std::filesystem::path base_output_directory = "runs";
  std::filesystem::path load_parameters_path;
  std::filesystem::path load_adapter_path;
  bool allow_unknown_config_keys = false;
  bool enable_checkpointing = true;
  int64_t checkpoint_period = 0;
  bool async_checkpointing = true;
  int64_t max_num_checkpoints_to_keep = 2;
  KeepBest keep_best = KeepBest::none;
  int64_t early_stopping_patience = 0;
  double early_stopping_threshold = 0;
  std::filesystem::path load_full_state_path;
  bool fall_back_to_earlier_checkpoint = false;
  int64_t steps = 100;
  double num_epoch = 0;
  int64_t seed = 0;
  BackendChoice backend = BackendChoice::automatic;
  bool deterministic = true;

  // model
  Toy toy = Toy::none;
  // What the model's keys say of a decoder, and for toys of their sizes; the rest of it is what
  // decoder_config() makes of other keys. Sizes of 0 have no default and must be given.
  models::DecoderConfig model{.vocabulary = 0,
                              .width = 0,
                              .layers = 0,
                              .query_heads = 0,
                              .kv_heads = 0,
                              .head_dim = 0,
                              .mlp_width = 0};
  bool use_multimodal = false;
  // What images are read with; `images` and `family` follow from other keys.
  models::VisionConfig vision;
  std::vector<std::string> layer_types, no_rope_layers, mlp_only_layers;
  RopeType rope_type = RopeType::unscaled;
  double rope_factor = 1;
  double rope_low_freq_factor = 1;
  double rope_high_freq_factor = 4;
  int64_t rope_original_max_position_embeddings = 8192;
  double beta_fast = 32, beta_slow = 1;
  bool rope_truncate = true;
  double rope_attention_factor = 0;

  // training
  Objective objective = Objective::sft;
  std::optional<double> preference_beta;
  double preference_label_smoothing = 0;
  DpoLoss dpo_loss = DpoLoss::sigmoid;
  LengthNormalization preference_length_normalization = LengthNormalization::automatic;
  std::optional<double> preference_sft_weight;
  double simpo_gamma = 0.5;
  double kto_desirable_weight = 1, kto_undesirable_weight = 1;
  DistillLoss distill_loss = DistillLoss::forward_kl;
  int64_t distill_top_k = 64;
  double distill_temperature = 1;
  double distill_weight = 1;
  PolicyLoss policy_loss = PolicyLoss::grpo;
  std::optional<double> policy_clip_low, policy_clip_high;
  double policy_kl_weight = 0;
  Reference reference = Reference::automatic;
  std::filesystem::path reference_parameters_path;
  bool reference_memory_host_offload = false;
  FrozenWeightDtype reference_weight_dtype = FrozenWeightDtype::automatic;
  std::vector<std::string> trainable_parameters_mask;
  int64_t lora_rank = 0;
  double lora_alpha = 8;
  std::vector<std::string> lora_targets = {kAllLinear};
  bool use_rslora = false;
  bool use_dora = false;
  double lora_dropout = 0;
  double loraplus_lr_ratio = 1;
  std::vector<std::string> modules_to_save;
  std::vector<std::string> trainable_token_indices;
  std::vector<std::string> rank_pattern, alpha_pattern;
  bool lora_per_expert = false;
  std::vector<std::string> add_tokens;
  // No key: of load_adapter_path, rank_pattern and alpha_pattern, where adapters are not alike in
  // all layers (see models::LoraConfig). with_adapter() fills it in.
  std::map<std::string, models::LoraModule, std::less<>> lora_modules;
  // No keys: the numbers of add_tokens, in their order, and the rows of those that are new.
  // with_added_tokens() fills them in.
  std::vector<int64_t> added_tokens;
  AddedRows added_rows;
  // No key: the matrices that load_parameters_path has in fewer bits, which frozen_weight_dtype:
  // auto leaves as they are. with_stored_formats() fills it in.
  std::shared_ptr<const models::Quantizations> stored_formats;

  // batch
  int64_t max_target_length = 2048;
  int64_t per_device_batch_size = 1;
  int64_t gradient_accumulation_steps = 1;
  int64_t max_num_images_per_example = 1;
  ComputeDtype dtype = ComputeDtype::automatic;
  WeightDtype weight_dtype = WeightDtype::float32;
  FrozenWeightDtype frozen_weight_dtype = FrozenWeightDtype::automatic;
  bool frozen_weight_double_quantization = false;

  // parallelism
  int64_t ici_data_parallelism = 1;
  int64_t ici_fsdp_parallelism = -1;
  int64_t dcn_data_parallelism = 1;
  int64_t dcn_fsdp_parallelism = 1;
  bool shard_optimizer_over_data = false;

  // remat
  std::string remat_policy = "full";
  std::string remat_policy_for_vit = "full";
  std::optional<int64_t> offload_layers;
  // The actions of the labels whose keys are set: "remat", "device" or "offload", or two of them,
  // for the first offload_layers layers and for the others.
  std::map<std::string, std::vector<std::string>> label_actions;

  // offload
  bool parameter_memory_host_offload = false;
  std::optional<int64_t> parameter_layers_on_device = 0;  // none: as many as fit
  bool gradient_memory_host_offload = false;
  bool optimizer_memory_host_offload = false;
  OptimizerCompute optimizer_compute = OptimizerCompute::device;
  std::optional<double> prefetch_layers;
  std::string hardware;
  std::optional<double> device_memory_limit;  // GiB
  std::optional<double> host_memory_limit;    // GiB
  bool auto_micro_batch = false;

  // optimizer
  double learning_rate = 3e-5;
  double warmup_steps_fraction = 0.1;
  double cosine_learning_rate_final_fraction = 0.1;
  std::optional<int64_t> learning_rate_schedule_steps;
  OptType opt_type = OptType::adamw;
  double adam_b1 = 0.9;
  double adam_b2 = 0.95;
  double adam_eps = 1e-8;
  double adam_weight_decay = 0.1;
  double lion_b1 = 0.9;
  double lion_b2 = 0.99;
  double lion_weight_decay = 0.1;
  double sgd_momentum = 0.9;
  bool sgd_nesterov = false;
  double sgd_weight_decay = 0;
  double load_balance_loss_weight = 0;
  models::BalanceLoss load_balance_loss_type = models::BalanceLoss::rows;
  double router_z_loss_weight = 0;
  double gradient_clipping_threshold = 1;
  GradientClipping gradient_clipping = GradientClipping::global_norm;
  models::StateFormat moment_dtype = models::StateFormat::float32;
  OnNonFinite on_non_finite = OnNonFinite::stop;

  // data
  DatasetType dataset_type = DatasetType::synthetic;
  std::vector<DatasetFile> dataset_path;
  std::vector<EvalDataset> eval_dataset_path;
  double eval_fraction = 0;
  std::string train_split = "train", eval_split = "validation";
  std::filesystem::path tokenizer_path;
  std::string chat_template = data::kAutoTemplate;  // see data::ChatTemplateChoice, as the next two
  std::vector<std::string> chat_template_kwargs;
  std::string chat_template_date;
  data::TrainOn train_on = data::TrainOn::assistant;
  std::vector<std::string> train_data_columns;
  int64_t shuffle_window = 0;  // rows; 0: all of an epoch
  bool keep_tokens = true;
  bool packing = true;
  data::ExcessLength excess_length_strategy = data::ExcessLength::truncate;
  bool skip_bad_lines = false;
  int64_t max_image_pixels = data::kMaxImagePixels;
  bool verify_token_files = true;
  data::AddBosEos add_bos_eos = data::AddBosEos::missing;
  std::optional<int64_t> eval_interval;
  std::optional<int64_t> eval_steps;
  std::filesystem::path eval_prompts_path;
  std::filesystem::path eval_choices_path;

  // report
  std::optional<double> peak_tflops_per_device;
  bool write_report = true;
  std::filesystem::path tensorboard_dir;
  int64_t log_period = 1;
  int64_t profiler_steps = 0;
  int64_t skip_first_n_steps_for_profiler = 1;
  std::vector<std::string> memory_report_steps;  // numbers, as metrics.jsonl has them
  std::string sample_prompt;
  int64_t sample_tokens = 0;
  double sample_temperature = 0.8;
  int64_t sample_top_k = 0;
  double sample_top_p = 1;

  std::string config_file;  // as messages name it: configs/quickstart.yml

  // The origin of the value of each key that was set: "configs/x.yml:14" or "command line".
  std::map<std::string, std::string> origins;
};

// In base_output_directory, with texts that runs have tokenized.
inline constexpr const char* kTokensFolder = "tokens";

// The most tokens of a micro-batch, which bounds the size of its activations.
inline constexpr int64_t kMaxTokens = 1 << 24;

// Whether the model is a network of the offloading tutorial. Those have no heads and no tokens, and
// can only be planned.
bool is_toy(const Config& config);
// Throws ConfigError for a toy.
void require_decoder(const Config& config);

// The tokens that a device takes in a step.
int64_t tokens_per_step(const Config& config);

// The files of training and of evaluation.
std::vector<std::filesystem::path> data_files(const Config& config);

// Whether there is validation text.
// Whether there is text held out.
bool evaluates(const Config& config);
// Whether there are questions of multiple choice.
bool asks_choices(const Config& config);
// Whether a text is sampled at the end of a run, and texts of prompts at evaluations.
bool samples(const Config& config);
bool samples_prompts(const Config& config);
// Tokens of such a text at most, prompt included.
int64_t sample_capacity(const Config& config);
// Whether something is evaluated after so many steps, other than at the end.
bool evaluates_after(const Config& config, int64_t steps);
// The metric that keep_best names, or early stopping goes by.
KeepBest best_metric(const Config& config);

data::ChatTemplateChoice chat_template_choice(const Config& config);

// The first file of training or evaluation that has to be tokenized; nothing where there is none.
std::optional<std::filesystem::path> text_file(const Config& config);

// "configs/x.yml:14", "command line" or "default".
std::string origin(const Config& config, const std::string& key);

// "configs/x.yml:14 key", with which errors about a key's value begin.
std::string location(const Config& config, const std::string& key);

// Returns the result of `make`. Turns a KeyError that it throws into a ConfigError that begins with
// location().
template <class Make>
auto with_origin(const Config& config, Make make) {
  try {
    return make();
  } catch (const KeyError& error) {
    throw ConfigError(origin(config, error.key) + " " + error.what());
  }
}

}  // namespace longshore::trainer
