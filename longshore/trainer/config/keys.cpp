#include "longshore/trainer/config/keys.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "longshore/models/families/fields.h"
#include "longshore/models/families/limits.h"
#include "longshore/models/families/lora_config.h"
#include "longshore/models/ir/labels.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/offload/policy/policy.h"

namespace longshore::trainer {
namespace {

// longshore/models/families/limits.h has the bounds of a model's sizes, keys.h those of a run's.
constexpr int64_t kMaxDevices = 1 << 12;
constexpr double kMaxGibibytes = 1 << 20;
constexpr int64_t kMaxImages = 1 << 10;

template <auto member>
ChoiceKey choice(std::vector<std::string> names) {
  using Enum = std::remove_reference_t<decltype(std::declval<Config&>().*member)>;
  return {std::move(names),
          [](const Config& config) { return static_cast<size_t>(config.*member); },
          [](Config& config, size_t index) { config.*member = static_cast<Enum>(index); }};
}

NumberKey at_least(double low, double Config::*member) { return {member, low}; }
NumberKey above(double low, double Config::*member) { return {member, low, End::excluded}; }
NumberKey fraction(double Config::*member) { return {member, 0, End::included, 1}; }
NumberKey memory(std::optional<double> Config::*member) {
  return {{member, 0}, 0, End::included, kMaxGibibytes};
}
NumberKey below_one(double Config::*member) { return {member, 0, End::included, 1, End::excluded}; }

constexpr size_t kMaxTrainedTokens = 100'000;  // what is added to a vocabulary, or a part of one
constexpr double kMaxLoraPlusRatio = 1e6;      // LoRA+ has 2 to 16; infinite rates train nothing

// "llama", ...: the families, then the toys.
const std::vector<std::string>& model_types() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> names;
    for (const models::Family* family : models::families()) names.emplace_back(family->name);
    names.insert(names.end(), {"toy_a", "toy_b"});
    return names;
  }();
  return names;
}

ChoiceKey model_type_choice() {
  return {model_types(),
          [](const Config& config) {
            const auto& families = models::families();
            if (config.toy != Toy::none)
              return families.size() + static_cast<size_t>(config.toy) - 1;
            return static_cast<size_t>(std::ranges::find(families, config.model.family) -
                                       families.begin());
          },
          [](Config& config, size_t index) {
            const size_t count = models::families().size();
            config.toy = index < count ? Toy::none : static_cast<Toy>(index - count + 1);
            config.model.family = models::families()[index < count ? index : 0];
          }};
}

using models::DecoderConfig;

int64_t low(const models::Field& field) { return static_cast<int64_t>(field.low); }
int64_t high(const models::Field& field) { return static_cast<int64_t>(field.high); }
End low_end(const models::Field& field) {
  return field.low_is_excluded ? End::excluded : End::included;
}

IntegerKey kind_of(const models::Field& field, int64_t DecoderConfig::*member) {
  return {member, low(field), high(field)};
}
IntegerKey kind_of(const models::Field& field, std::optional<int64_t> DecoderConfig::*member) {
  const auto unset = static_cast<int64_t>(field.unset);
  return {{member, unset}, low(field), high(field), unset};
}
NumberKey kind_of(const models::Field& field, double DecoderConfig::*member) {
  return {member, field.low, low_end(field)};
}
NumberKey kind_of(const models::Field& field, std::optional<double> DecoderConfig::*member) {
  return {{member, field.unset}, field.low, low_end(field)};
}
FlagKey kind_of(const models::Field&, bool DecoderConfig::*member) { return {member}; }

// Of a field of longshore/models/families/fields.h.
Key key_of(const models::Field& field) {
  return std::visit(
      [&](auto member) {
        return Key{field.key, Section::model, kind_of(field, member), field.help};
      },
      field.member);
}

// Of what reads images.
std::vector<Key> vision_keys() {
  using enum Section;
  using models::VisionConfig;
  std::vector<Key> keys{
      {"use_multimodal", model, FlagKey{&Config::use_multimodal},
       "images are read too, by a vision tower and a projector; by default where the model of "
       "load_parameters_path is none without"}};
  for (const models::VisionField& field : models::vision_fields())
    keys.push_back({field.key, model, IntegerKey{field.member, 1, field.most}, field.help});
  const std::vector<Key> others{
      {"normalization_layer_epsilon_for_vit", model,
       NumberKey{&VisionConfig::norm_epsilon, 0, End::excluded},
       "added to the variance in the tower's LayerNorm"},
      {"mm_tokens_per_image", model, IntegerKey{&VisionConfig::image_tokens, 1, models::kMaxLength},
       "gemma3_text: tokens of an image, to which its patches are averaged"},
      {"image_token_id", model,
       IntegerKey{&VisionConfig::image_token, 0, models::kMaxVocabulary - 1, -1},
       "the token that stands where images go"}};
  keys.insert(keys.end(), others.begin(), others.end());
  return keys;
}

std::vector<Key> model_keys() {
  using enum Section;
  std::vector<Key> keys{
      {"model_type", model, model_type_choice(),
       "the architecture; the toys are for plan: see configs/toy_a.yml, configs/toy_b.yml"}};
  for (const models::Field* field : models::decoder_fields()) keys.push_back(key_of(*field));
  const std::vector<Key> others{
      {"layer_types", model,
       ListKey{&Config::layer_types, "full_attention or sliding_attention", {}},
       "with a window: for each layer whether it has it, sliding_attention, or not, "
       "full_attention; "
       "none: as full_attention_period says"},
      {"no_rope_layers", model, ListKey{&Config::no_rope_layers, "1 or 0", {}},
       "smollm3: for each layer whether it has RoPE, 1, or not, 0; none: as nope_layer_interval "
       "says"},
      {"mlp_only_layers", model, ListKey{&Config::mlp_only_layers, "numbers of layers", {}},
       "qwen3_moe, llama4_text: the layers, counted from 0, that have a dense MLP and no experts; "
       "none: as interleave_moe_layer_step says"},
      {"rope_type", model,
       choice<&Config::rope_type>({"default", "linear", "llama3", "yarn", "proportional"}),
       "how RoPE's frequencies are scaled in layers without a window"},
      {"rope_factor", model, at_least(1, &Config::rope_factor),
       "linear, llama3, yarn: divides frequencies"},
      {"rope_low_freq_factor", model, above(0, &Config::rope_low_freq_factor),
       "llama3: turns within the original length up to which a frequency is divided"},
      {"rope_high_freq_factor", model, above(0, &Config::rope_high_freq_factor),
       "llama3: turns from which it stays"},
      {"rope_original_max_position_embeddings", model,
       IntegerKey{&Config::rope_original_max_position_embeddings, 1, models::kMaxLength},
       "llama3, yarn: the original length"},
      {"beta_fast", model, above(0, &Config::beta_fast),
       "yarn: pairs that make more turns in the original length keep their frequency"},
      {"beta_slow", model, above(0, &Config::beta_slow),
       "yarn: those that make fewer have it divided; less than beta_fast"},
      {"rope_truncate", model, FlagKey{&Config::rope_truncate},
       "yarn: mixes between the whole numbers around these pairs"},
      {"rope_attention_factor", model, at_least(0, &Config::rope_attention_factor),
       "yarn: of cosines and sines; 0: 0.1 ln(rope_factor) + 1"}};
  keys.insert(keys.end(), others.begin(), others.end());
  const std::vector<Key> of_vision = vision_keys();
  keys.insert(keys.end(), of_vision.begin(), of_vision.end());
  return keys;
}

std::vector<Key> make_config_keys() {
  using enum Section;
  std::vector<Key> keys{
      {"model_name", run, TextKey{&Config::model_name},
       "file of configs/models that brings the model keys; the config may override them"},
      {"run_name", run, TextKey{&Config::run_name},
       "folder of the run; empty: config name and time; a given one resumes what is there"},
      {"base_output_directory", run, PathKey{&Config::base_output_directory},
       "where the folders of runs are made"},
      {"load_parameters_path", run, PathKey{&Config::load_parameters_path},
       "folder of a Hugging Face checkpoint to start from; empty: random weights"},
      {"load_adapter_path", run, PathKey{&Config::load_adapter_path},
       "folder of a peft LoRA adapter to start from, which gives the lora keys that are not set"},
      {"allow_unknown_config_keys", run, FlagKey{&Config::allow_unknown_config_keys},
       "keys of a config.json that are not known are ignored, with a warning; false: they are an "
       "error"},
      {"enable_checkpointing", run, FlagKey{&Config::enable_checkpointing},
       "saves the run's state at the end and on SIGTERM, SIGINT, SIGHUP or SIGUSR1, and resumes "
       "what a run of that name has saved; false: nothing is saved, no weights either"},
      {"checkpoint_period", run, IntegerKey{&Config::checkpoint_period, 0, kMaxSteps},
       "also saves each time so many steps are done; 0: no"},
      {"async_checkpointing", run, FlagKey{&Config::async_checkpointing},
       "a save copies the state into host memory and is written while the next steps run; false: "
       "steps wait, and no memory is taken for the copy"},
      {"max_num_checkpoints_to_keep", run,
       IntegerKey{&Config::max_num_checkpoints_to_keep, 1, kMaxSteps, -1},
       "so many of the newest checkpoints stay; -1: all"},
      {"keep_best", run,
       choice<&Config::keep_best>({"none", "validation_loss", "validation_rewards_accuracies",
                                   "validation_rewards_margins", "choices_accuracy",
                                   "choices_accuracy_over_characters",
                                   "choices_accuracy_over_bytes"}),
       "after an evaluation at which this is the best so far the state is saved, whatever "
       "checkpoint_period says, and stays; the run's link best leads to it"},
      {"early_stopping_patience", run, IntegerKey{&Config::early_stopping_patience, 0, kMaxSteps},
       "so many evaluations in a row at which what keep_best names, by default validation_loss, "
       "gets no better end the run; 0: it does all its steps"},
      {"early_stopping_threshold", run, at_least(0, &Config::early_stopping_threshold),
       "by how much it has to be better than the best before"},
      {"load_full_state_path", run, PathKey{&Config::load_full_state_path},
       "folder of a checkpoint that a new run goes on from: weights, moments and place in the "
       "data; empty: none"},
      {"fall_back_to_earlier_checkpoint", run, FlagKey{&Config::fall_back_to_earlier_checkpoint},
       "where the newest checkpoint is damaged, resumes from the newest that is whole; false: that "
       "is an error"},
      {"steps", run, IntegerKey{&Config::steps, 1, kMaxSteps}, "training steps"},
      {"num_epoch", run, NumberKey{&Config::num_epoch, 0, End::included, 1e6},
       "how often the run goes through its files, in the place of steps; 0: steps says"},
      {"seed", run, IntegerKey{&Config::seed, 0, std::numeric_limits<int64_t>::max()},
       "decides initial weights and the order of the data"},
      {"backend", run, choice<&Config::backend>({"auto", "cpu", "cuda", "cuda_composed"}),
       "auto: cuda where this build and machine have it; cuda_composed: CUDA with ATen's ops in "
       "the place of custom kernels, cuBLASLt's and cuDNN's, to look for a fault in one of them"},
      {"deterministic", run, FlagKey{&Config::deterministic},
       "of CUDA: gradients of attention are sums in a fixed order, so that a step gives the same "
       "bits again and under every policy; false: in any order, which may be faster"},

      {"objective", training,
       choice<&Config::objective>(
           {"sft", "distill", "dpo", "ipo", "orpo", "simpo", "kto", "policy_gradient"}),
       "what is learnt: sft: the text itself; distill: what a teacher says of it; policy_gradient: "
       "to say again what was good of "
       "answers that a policy has drawn; others: to prefer the better of two answers to a prompt, "
       "or of kto answers that are good or bad"},
      {"preference_beta", training,
       NumberKey{{&Config::preference_beta, 0}, 1e-6, End::included, 1e4, End::included, 0},
       "how much a preference counts against the reference, of orpo its weight beside sft; 0: 2 "
       "for simpo, else 0.1"},
      {"preference_label_smoothing", training, below_one(&Config::preference_label_smoothing),
       "dpo, simpo: probability that a pair is the wrong way round"},
      {"dpo_loss", training, choice<&Config::dpo_loss>({"sigmoid", "robust", "hinge"}),
       "dpo: the loss of a pair; sigmoid is conservative, and robust unbiased, where labels are "
       "smoothed"},
      {"preference_length_normalization", training,
       choice<&Config::preference_length_normalization>({"auto", "false", "true"}),
       "answers count by the mean of their tokens' log-probabilities, and not by the sum; auto: "
       "for ipo, orpo and simpo"},
      {"preference_sft_weight", training,
       NumberKey{{&Config::preference_sft_weight, -1}, 0, End::included, 1e4, End::included, -1},
       "weight of the cross-entropy of chosen answers, which is added; -1: 1 for orpo, whose "
       "prompts are learnt too, else 0"},
      {"simpo_gamma", training, at_least(0, &Config::simpo_gamma),
       "simpo: by how much a chosen answer is to be ahead"},
      {"kto_desirable_weight", training, at_least(0, &Config::kto_desirable_weight),
       "kto: weight of good answers"},
      {"kto_undesirable_weight", training, at_least(0, &Config::kto_undesirable_weight),
       "kto: weight of bad answers"},
      {"distill_loss", training, choice<&Config::distill_loss>({"forward_kl", "reverse_kl"}),
       "distill: forward_kl: the divergence KL(teacher || model); reverse_kl: KL(model || "
       "teacher)"},
      {"distill_top_k", training, IntegerKey{&Config::distill_top_k, 1, models::kMaxTargets},
       "distill: how many of the teacher's most likely tokens count each by itself; all others "
       "together are one more"},
      {"distill_temperature", training,
       NumberKey{{&Config::distill_temperature}, 1e-3, End::included, 1e3, End::included},
       "distill: what log-probabilities of both are divided by; the divergence counts by its "
       "square"},
      {"distill_weight", training,
       NumberKey{{&Config::distill_weight}, 0, End::excluded, 1, End::included},
       "distill: weight of the divergence; the cross-entropy of the text has what is left of 1"},
      {"policy_loss", training, choice<&Config::policy_loss>({"grpo", "dapo", "gspo"}),
       "policy_gradient: grpo: ratios of tokens, and the mean of answers; dapo: the mean of all "
       "tokens; gspo: ratios of answers"},
      {"policy_clip_low", training,
       NumberKey{{&Config::policy_clip_low, 0}, 1e-6, End::included, 1, End::included, 0},
       "policy_gradient: how far below 1 a ratio counts; 0: 3e-4 for gspo, else 0.2"},
      {"policy_clip_high", training,
       NumberKey{{&Config::policy_clip_high, 0}, 1e-6, End::included, 1e4, End::included, 0},
       "policy_gradient: how far above 1; 0: 4e-4 for gspo, 0.28 for dapo, else 0.2"},
      {"policy_kl_weight", training,
       NumberKey{{&Config::policy_kl_weight}, 0, End::included, 1e4, End::included},
       "policy_gradient: weight of the divergence from a reference, whose log-probabilities the "
       "rollouts have; 0: none"},
      {"reference", training,
       choice<&Config::reference>(
           {"auto", "adapter_off", "adapter_start", "frozen", "precomputed"}),
       "what dpo, ipo and kto measure against: the model without its adapter; with it as it was "
       "loaded; a frozen copy; or what the model gave before the first step, and was kept; auto: "
       "the first of these that is the model as training begins"},
      {"reference_parameters_path", training, PathKey{&Config::reference_parameters_path},
       "frozen: a Hugging Face folder with the copy's weights; empty: those that training begins "
       "with"},
      {"reference_memory_host_offload", training, FlagKey{&Config::reference_memory_host_offload},
       "frozen: the copy lives in pinned host memory"},
      {"reference_weight_dtype", training,
       choice<&Config::reference_weight_dtype>(
           {"auto", "float32", "bfloat16", "fp8", "int8", "nf4", "mxfp4"}),
       "frozen: what the copy's matrices are stored in, as frozen_weight_dtype"},
      {"trainable_parameters_mask", training,
       ListKey{&Config::trainable_parameters_mask, "regular expressions", {}},
       "a parameter trains when one of them is found in its full name; the others are frozen; "
       "none: all train"},
      {"lora_rank", training, IntegerKey{&Config::lora_rank, 0, models::kMaxLoraRank},
       "rank of low-rank adapters, beside which all other weights are frozen but those that the "
       "mask finds; 0: no adapters"},
      {"lora_alpha", training, above(0, &Config::lora_alpha),
       "adapters' products are scaled by lora_alpha / lora_rank"},
      {"lora_targets", training,
       ListKey{&Config::lora_targets, "projections", models::all_lora_targets(), kAllLinear},
       "projections that have an adapter, and lm_head; all-linear: all of a layer's, experts' "
       "among "
       "them"},
      {"use_rslora", training, FlagKey{&Config::use_rslora},
       "adapters' products are scaled by lora_alpha / sqrt(lora_rank) instead"},
      {"use_dora", training, FlagKey{&Config::use_dora},
       "adapters have a magnitude for each of a module's outputs, and adapt directions (DoRA)"},
      {"modules_to_save", training,
       ListKey{
           &Config::modules_to_save, "modules", {models::kEmbeddingModule, models::kHeadModule}},
       "train beside the adapters, all of them, and are saved with those"},
      {"trainable_token_indices", training,
       ListKey{&Config::trainable_token_indices, "tokens' numbers", {}, "", kMaxTrainedTokens},
       "tokens whose rows of the embedding train beside the adapters, and are saved with those"},
      {"rank_pattern", training, ListKey{&Config::rank_pattern, "MODULE:RANK", {}},
       "ranks of modules whose full name, or its end after a dot, is what the regular expression "
       "MODULE says; the first that does counts"},
      {"alpha_pattern", training, ListKey{&Config::alpha_pattern, "MODULE:ALPHA", {}},
       "the same of alphas"},
      {"add_tokens", training, ListKey{&Config::add_tokens, "tokens", {}},
       "tokens that the tokenizer is to have; rows of new ones begin as the mean of all others, "
       "and train, of the embedding also beside adapters"},
      {"lora_dropout", training, below_one(&Config::lora_dropout),
       "probability with which numbers that an adapter reads drop out in training"},
      {"loraplus_lr_ratio", training,
       NumberKey{&Config::loraplus_lr_ratio, 0, End::excluded, kMaxLoraPlusRatio},
       "learning rate of adapters' B, as a multiple of A's (LoRA+)"},
      {"lora_per_expert", training, FlagKey{&Config::lora_per_expert},
       "each expert's gate, up and down has an adapter by itself, saved as servers read them; "
       "false: adapters of all experts are one, as peft's target_parameters have them, and gate "
       "and up share what reads their input"},

      {"max_target_length", batch, IntegerKey{&Config::max_target_length, 1, models::kMaxLength},
       "tokens of a sequence"},
      {"per_device_batch_size", batch, IntegerKey{&Config::per_device_batch_size, 1, kMaxBatch},
       "sequences of a micro-batch"},
      {"gradient_accumulation_steps", batch,
       IntegerKey{&Config::gradient_accumulation_steps, 1, kMaxBatch}, "micro-batches of a step"},
      {"max_num_images_per_example", batch,
       IntegerKey{&Config::max_num_images_per_example, 1, kMaxImages},
       "images of a sequence, at most"},
      {"dtype", batch, choice<&Config::dtype>({"auto", "float32", "bfloat16"}),
       "type of activations and computing; auto: bfloat16 where the machine has it"},
      {"weight_dtype", batch, choice<&Config::weight_dtype>({"float32", "bfloat16"}),
       "type of the weights that are trained; bfloat16: no master copy, stochastic rounding"},
      {"frozen_weight_dtype", batch,
       choice<&Config::frozen_weight_dtype>(
           {"auto", "float32", "bfloat16", "fp8", "int8", "nf4", "mxfp4"}),
       "what matrices of linear layers and experts that do not train are stored in, as numbers of "
       "so many bits with scales; auto: as load_parameters_path has them where that is in 4 or 8 "
       "bits, "
       "else the type that is computed in"},
      {"frozen_weight_double_quantization", batch,
       FlagKey{&Config::frozen_weight_double_quantization},
       "with nf4: scales are stored in 8 bits, as bitsandbytes has it with double quantization"},

      {"ici_data_parallelism", parallelism,
       IntegerKey{&Config::ici_data_parallelism, 1, kMaxDevices, -1},
       "devices of a node that each hold a copy of the states; -1: all that are left"},
      {"ici_fsdp_parallelism", parallelism,
       IntegerKey{&Config::ici_fsdp_parallelism, 1, kMaxDevices, -1},
       "devices of a node over which parameters, gradients and optimizer state are divided; -1: "
       "all that are left"},
      {"dcn_data_parallelism", parallelism,
       IntegerKey{&Config::dcn_data_parallelism, 1, kMaxDevices},
       "nodes that each hold a copy of the states"},
      {"dcn_fsdp_parallelism", parallelism,
       IntegerKey{&Config::dcn_fsdp_parallelism, 1, kMaxDevices},
       "nodes over which the states are divided"},
      {"shard_optimizer_over_data", parallelism, FlagKey{&Config::shard_optimizer_over_data},
       "devices along data each update a share of the weights and hold the optimizer state of that "
       "alone (ZeRO-1)"},

      {"remat_policy", remat, TextKey{&Config::remat_policy},
       "what a layer keeps and what it computes again; custom: the label keys below; auto: what is "
       "fastest on `hardware` and fits, also of where parameters, gradients and optimizer state "
       "live; keys that are set stay"},
      {"remat_policy_for_vit", remat, TextKey{&Config::remat_policy_for_vit},
       "the same of the vision tower's layers: one of the named policies"},
      {"auto_micro_batch", remat, FlagKey{&Config::auto_micro_batch},
       "auto also divides a step's sequences between per_device_batch_size and "
       "gradient_accumulation_steps"},
      {"offload_layers", remat,
       IntegerKey{{&Config::offload_layers, -1}, 0, models::kMaxLayers, -1},
       "so many layers, from the first, follow the policy; what it offloads stays on the device in "
       "the others, or their action is the second of a label's key; -1: all but the last"},
      {offload::kUnlabelled, remat, LabelKey{{"remat", "device"}},
       "custom: what has no label: results of norms and activations"},
      {"x", remat, LabelKey{}, "custom, of the toys: the layer's input"},
      {"y", remat, LabelKey{}, "custom, of toy_a: the first product"},

      {"parameter_memory_host_offload", offload, FlagKey{&Config::parameter_memory_host_offload},
       "weights live in host memory and are fetched when used"},
      {"parameter_layers_on_device", offload,
       IntegerKey{{&Config::parameter_layers_on_device, -1}, 0, models::kMaxLayers, -1, "auto"},
       "with parameter_memory_host_offload: so many layers, evenly spread, whose weights stay on "
       "the device all the same; auto: as many as fit `hardware`"},
      {"gradient_memory_host_offload", offload, FlagKey{&Config::gradient_memory_host_offload},
       "gradients go to host memory as they are made"},
      {"optimizer_memory_host_offload", offload, FlagKey{&Config::optimizer_memory_host_offload},
       "moments and master weights live in host memory"},
      {"optimizer_compute", offload, choice<&Config::optimizer_compute>({"device", "host"}),
       "who updates weights whose moments live in host memory: they come to the device, or the "
       "host computes"},
      {"prefetch_layers", offload,
       NumberKey{{&Config::prefetch_layers, -1}, 0, End::included, 64, End::included, -1},
       "how many layers ahead of its use, or after it was made, a transfer may run; 0: the least "
       "memory, nothing is hidden; -1: as many as it takes"},
      {"hardware", offload, TextKey{&Config::hardware, true},
       "profile of configs/hardware, or a file, that choices go by; none: round numbers"},
      {"device_memory_limit", offload, memory(&Config::device_memory_limit),
       "GiB of device memory that a run may take; 0: all there is"},
      {"host_memory_limit", offload, memory(&Config::host_memory_limit),
       "GiB of host memory that a run may take, pinned and for checkpoints; 0: all there is"},

      {"learning_rate", optimizer, at_least(0, &Config::learning_rate), "peak learning rate"},
      {"warmup_steps_fraction", optimizer, fraction(&Config::warmup_steps_fraction),
       "part of the schedule that rises linearly from 0"},
      {"cosine_learning_rate_final_fraction", optimizer,
       fraction(&Config::cosine_learning_rate_final_fraction),
       "learning rate at the schedule's end, as a part of the peak"},
      {"learning_rate_schedule_steps", optimizer,
       IntegerKey{{&Config::learning_rate_schedule_steps, -1}, 1, kMaxSteps, -1},
       "length of the schedule; -1: steps"},
      {"opt_type", optimizer, choice<&Config::opt_type>({"adamw", "lion", "sgd"}),
       "the optimizer: AdamW, Lion, or SGD with momentum"},
      {"adam_b1", optimizer, below_one(&Config::adam_b1), "adamw: decay of the first moment"},
      {"adam_b2", optimizer, below_one(&Config::adam_b2), "adamw: decay of the second moment"},
      {"adam_eps", optimizer, NumberKey{&Config::adam_eps, 1e-37, End::included, 1e37},
       "adamw: added to the second moment's root"},
      {"adam_weight_decay", optimizer, at_least(0, &Config::adam_weight_decay),
       "adamw: decoupled weight decay"},
      {"lion_b1", optimizer, below_one(&Config::lion_b1),
       "lion: decay of the momentum that the sign of a step is of"},
      {"lion_b2", optimizer, below_one(&Config::lion_b2),
       "lion: decay of the momentum that is kept"},
      {"lion_weight_decay", optimizer, at_least(0, &Config::lion_weight_decay),
       "lion: decoupled weight decay"},
      {"sgd_momentum", optimizer, below_one(&Config::sgd_momentum), "sgd: decay of the momentum"},
      {"sgd_nesterov", optimizer, FlagKey{&Config::sgd_nesterov},
       "sgd: steps go along the gradient and the momentum that follows (Nesterov)"},
      {"sgd_weight_decay", optimizer, at_least(0, &Config::sgd_weight_decay),
       "sgd: weight decay, added to the gradient"},
      {"load_balance_loss_weight", optimizer, at_least(0, &Config::load_balance_loss_weight),
       "of a loss that is least where tokens are spread evenly over experts; 0: none"},
      {"load_balance_loss_type", optimizer,
       choice<&Config::load_balance_loss_type>({"maxtext", "transformers"}),
       "maxtext: of the tokens of each row of a layer, the mean over rows and layers with experts; "
       "transformers: of those of all rows and layers of a device's micro-batch "
       "together, padding left out (router_aux_loss_coef)"},
      {"router_z_loss_weight", optimizer, at_least(0, &Config::router_z_loss_weight),
       "of a loss that keeps routers' logits small, the mean over layers with experts; 0: none"},
      {"gradient_clipping_threshold", optimizer, at_least(0, &Config::gradient_clipping_threshold),
       "largest global norm of the gradient; 0: no clipping"},
      {"gradient_clipping", optimizer,
       choice<&Config::gradient_clipping>({"global_norm", "previous_global_norm"}),
       "by which norm the gradient is clipped: its own, or that of the step before, so that no "
       "update waits for all of the gradient; then the first step is not clipped"},
      {"moment_dtype", optimizer, choice<&Config::moment_dtype>({"float32", "bfloat16", "8bit"}),
       "type of the moments that the optimizer keeps; 8bit: with a scale for each block of 256"},
      {"on_non_finite", optimizer, choice<&Config::on_non_finite>({"stop", "skip"}),
       "what becomes of a step whose loss or gradient is not finite: the run stops, or weights and "
       "moments stay as they are and the run goes on"},

      {"dataset_type", data, choice<&Config::dataset_type>({"synthetic", "tokens", "documents"}),
       "synthetic: random tokens; tokens: the text as one stream, cut into rows; documents: whole "
       "documents in rows"},
      {"dataset_path", data, DatasetKey{&Config::dataset_path},
       "what to train on: files of text or that tokenize wrote, folders of them, or patterns "
       "(*.jsonl); "
       "a weight is its share of the rows, and without weights every document comes once an epoch"},
      {"train_split", data, TextKey{&Config::train_split},
       "which of a folder's files dataset_path means, by their names"},
      {"eval_dataset_path", data, EvalDatasetKey{&Config::eval_dataset_path},
       "the same for evaluation, in sets that may have names, wiki=a.jsonl, and are evaluated one "
       "by one; empty: no evaluation, or eval_fraction"},
      {"eval_split", data, TextKey{&Config::eval_split},
       "which of a folder's files eval_dataset_path means, by their names"},
      {"eval_fraction", data, below_one(&Config::eval_fraction),
       "of dataset_path's documents, held out for evaluation by a hash of what they hold"},
      {"tokenizer_path", data, PathKey{&Config::tokenizer_path},
       "the tokenizer's file, or the folder it is in"},
      {"chat_template", data, TextKey{&Config::chat_template, true},
       "how conversations are written: auto, by the template of the tokenizer's folder, where it "
       "has "
       "one; none; llama2, llama3, gemma, chatml; a .jinja file; or the name of another template "
       "of "
       "the folder"},
      {"chat_template_kwargs", data, ListKey{&Config::chat_template_kwargs, "NAME=VALUE", {}},
       "what the chat template reads further, such as enable_thinking=false"},
      {"chat_template_date", data, TextKey{&Config::chat_template_date},
       "the day that chat templates show which ask for it (strftime_now), YYYY-MM-DD; empty: they "
       "find no such function, and show what they have for that"},
      {"train_on", data, choice<&Config::train_on>({"assistant", "last_assistant", "all"}),
       "what is learnt of conversations: what the assistant writes, its last turn, or all"},
      {"train_data_columns", data, ListKey{&Config::train_data_columns, "columns", {}},
       "which columns of records are read: of a text or of messages, or of prompts and "
       "completions; "
       "empty: those that are known by their names"},
      {"add_bos_eos", data, choice<&Config::add_bos_eos>({"missing", "always", "never"}),
       "bos and eos around texts and pairs; missing: unless one begins or ends with it itself"},
      {"shuffle_window", data, IntegerKey{&Config::shuffle_window, 0, 1'000'000'000},
       "rows that are shuffled among each other, of files that are read one after the other and "
       "tokenized one ahead; 1: as they stand; 0: all files are tokenized first, and all rows of "
       "an "
       "epoch are shuffled"},
      {"keep_tokens", data, FlagKey{&Config::keep_tokens},
       "shuffle_window: tokens of files that were passed stay in base_output_directory; false: the "
       "next epoch makes them anew"},
      {"packing", data, FlagKey{&Config::packing},
       "documents: several in a row, which do not see each other; false: one in a row"},
      {"excess_length_strategy", data,
       choice<&Config::excess_length_strategy>({"truncate", "split", "skip"}),
       "what becomes of a document that is longer than max_target_length"},
      {"skip_bad_lines", data, FlagKey{&Config::skip_bad_lines},
       "records that cannot be read, or whose images cannot, are counted, and no "
       "error"},
      {"max_image_pixels", data,
       IntegerKey{&Config::max_image_pixels, 1, data::kMaxImageSide * data::kMaxImageSide},
       "pixels that an image may have, of any file; more are an error before they are decoded"},
      {"verify_token_files", data, FlagKey{&Config::verify_token_files},
       "token files are read whole, while steps go on, and compared with the hash that they hold"},
      {"eval_interval", data, IntegerKey{{&Config::eval_interval, -1}, 1, kMaxSteps, -1},
       "steps between evaluations; -1: only at the end"},
      {"eval_steps", data, IntegerKey{{&Config::eval_steps, -1}, 1, kMaxSteps, -1},
       "batches of an evaluation, of each set; -1: all of it"},
      {"eval_choices_path", data, PathKey{&Config::eval_choices_path},
       "questions of multiple choice, of prompt, choices and answer, whose accuracy evaluations "
       "find"},
      {"eval_prompts_path", data, PathKey{&Config::eval_prompts_path},
       "prompts that are continued by sample_tokens at evaluations, into samples/ of the run: "
       "records with prompt or messages (.jsonl), or paragraphs (.txt)"},

      {"peak_tflops_per_device", report,
       NumberKey{{&Config::peak_tflops_per_device, 0}, 1e-6, End::included, 1e9, End::included, 0},
       "what MFU is measured against; 0: measured at start"},
      {"write_report", report, FlagKey{&Config::write_report},
       "report.html in the run's folder, a page that is renewed while the run goes on"},
      {"tensorboard_dir", report, PathKey{&Config::tensorboard_dir},
       "where TensorBoard looks for runs: the numbers of metrics.jsonl and texts go to event files "
       "in "
       "a folder there, of the run's name; empty: none"},
      {"log_period", report, IntegerKey{&Config::log_period, 1, kMaxSteps},
       "steps from one printed line to the next; the first and the last are always printed, and "
       "metrics.jsonl has all"},
      {"profiler_steps", report, IntegerKey{&Config::profiler_steps, 0, kMaxSteps},
       "steps whose lanes are recorded in trace.json; 0: none"},
      {"skip_first_n_steps_for_profiler", report,
       IntegerKey{&Config::skip_first_n_steps_for_profiler, 0, kMaxSteps},
       "steps of this process before the recorded ones"},
      {"memory_report_steps", report, ListKey{&Config::memory_report_steps, "numbers of steps", {}},
       "steps, numbered from 0 as metrics.jsonl has them, after which train prints what takes "
       "memory, as it does after SIGUSR2"},
      {"sample_prompt", report, TextKey{&Config::sample_prompt},
       "how the text sampled at the end begins"},
      {"sample_tokens", report, IntegerKey{&Config::sample_tokens, 0, models::kMaxLength},
       "length of the text sampled at the end, and of those of eval_prompts_path; 0: no sample"},
      {"sample_temperature", report, at_least(0, &Config::sample_temperature),
       "of sampled texts: divides logits; 0: the likeliest token is taken"},
      {"sample_top_k", report, IntegerKey{&Config::sample_top_k, 0, models::kMaxVocabulary},
       "of sampled texts: out of the so many likeliest tokens; 0: of all"},
      {"sample_top_p", report, NumberKey{&Config::sample_top_p, 0, End::excluded, 1},
       "of sampled texts: and of the likeliest that together have this probability"},
  };
  const std::vector<Key> of_model = model_keys();
  keys.insert(std::ranges::find(keys, training, &Key::section), of_model.begin(), of_model.end());
  auto place = std::ranges::find(keys, offload::kUnlabelled, &Key::name);
  for (const models::LabelInfo& label : models::kDecoderLabels)
    place = 1 + keys.insert(place, {std::string(label.name), remat, LabelKey{},
                                    "custom: " + std::string(label.meaning)});
  return keys;
}

}  // namespace

const std::vector<Key>& config_keys() {
  static const std::vector<Key> keys = make_config_keys();
  return keys;
}

const Key* find_key(const std::string& name) {
  auto key = std::ranges::find(config_keys(), name, &Key::name);
  return key == config_keys().end() ? nullptr : &*key;
}

}  // namespace longshore::trainer
