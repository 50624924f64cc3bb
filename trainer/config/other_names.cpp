#include "trainer/config/other_names.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "trainer/config/keys.h"

namespace longshore::trainer {

const std::map<std::string, std::string>& keys_by_other_name() {
  static const std::map<std::string, std::string> kKeys{
      // MaxText
      {"add_bos", "add_bos_eos"},
      {"add_eos", "add_bos_eos"},
      {"attention_type", "sliding_window_size"},
      {"data_shuffle_seed", "seed"},
      {"decoder_block", "model_type"},
      {"eval_dataset_name", "eval_dataset_path"},
      {"grain_eval_files", "eval_dataset_path"},
      {"grain_train_files", "dataset_path"},
      {"hf_eval_files", "eval_dataset_path"},
      {"hf_train_files", "dataset_path"},
      {"init_weights_seed", "seed"},
      {"learning_rate_final_fraction", "cosine_learning_rate_final_fraction"},
      {"mu_dtype", "moment_dtype"},
      {"num_epoch", "steps"},
      {"sliding_window", "sliding_window_size"},
      // torchtitan
      {"activation_checkpoint", "remat_policy"},
      {"activation_checkpoint.mode", "remat_policy"},
      {"beta1", "adam_b1"},
      {"beta2", "adam_b2"},
      {"checkpoint.enable", "enable_checkpointing"},
      {"data_parallel_replicate_degree", "dcn_data_parallelism"},
      {"data_parallel_shard_degree", "ici_fsdp_parallelism"},
      {"dataset", "dataset_path"},
      {"decay_ratio", "warmup_steps_fraction"},
      {"decay_type", "cosine_learning_rate_final_fraction"},
      {"dump_folder", "base_output_directory"},
      {"enable_cpu_offload", "optimizer_memory_host_offload"},
      {"enable_profiling", "profiler_steps"},
      {"eps", "adam_eps"},
      {"global_batch_size", "gradient_accumulation_steps"},
      {"initial_load_path", "load_parameters_path"},
      {"interval", "checkpoint_period"},
      {"local_batch_size", "per_device_batch_size"},
      {"lr", "learning_rate"},
      {"max_norm", "gradient_clipping_threshold"},
      {"model.flavor", "model_name"},
      {"min_lr_factor", "cosine_learning_rate_final_fraction"},
      {"mixed_precision_param", "dtype"},
      {"seq_len", "max_target_length"},
      {"validation.dataset", "eval_dataset_path"},
      {"validation.dataset_path", "eval_dataset_path"},
      {"validation.freq", "eval_interval"},
      {"validation.steps", "eval_steps"},
      // Lightning, LLaMA-Factory and nanoGPT
      {"accumulate_grad_batches", "gradient_accumulation_steps"},
      {"cutoff_len", "max_target_length"},
      {"gradient_clip_val", "gradient_clipping_threshold"},
      {"n_embd", "base_emb_dim"},
      {"n_head", "base_num_query_heads"},
      {"n_layer", "base_num_decoder_layers"},
      {"template", "chat_template"},
      // transformers' Trainer, peft and TRL
      {"activation_checkpointing", "remat_policy"},
      {"adam_beta1", "adam_b1"},
      {"adam_beta2", "adam_b2"},
      {"adam_epsilon", "adam_eps"},
      {"bf16", "dtype"},
      {"eval_strategy", "eval_interval"},
      {"evaluation_strategy", "eval_interval"},
      {"fp16", "dtype"},
      {"gradient_checkpointing", "remat_policy"},
      {"lora_r", "lora_rank"},
      {"max_grad_norm", "gradient_clipping_threshold"},
      {"lr_scheduler_type", "cosine_learning_rate_final_fraction"},
      {"max_length", "max_target_length"},
      {"max_seq_length", "max_target_length"},
      {"max_steps", "steps"},
      {"model_name_or_path", "load_parameters_path"},
      {"num_train_epochs", "steps"},
      {"output_dir", "base_output_directory"},
      {"per_device_train_batch_size", "per_device_batch_size"},
      {"r", "lora_rank"},
      {"resume_from_checkpoint", "run_name"},
      {"save_steps", "checkpoint_period"},
      {"save_total_limit", "max_num_checkpoints_to_keep"},
      {"target_modules", "lora_targets"},
      {"train_file", "dataset_path"},
      {"warmup_ratio", "warmup_steps_fraction"},
      {"warmup_steps", "warmup_steps_fraction"},
      {"weight_decay", "adam_weight_decay"},
      // config.json
      {"hidden_size", "base_emb_dim"},
      {"intermediate_size", "base_mlp_dim"},
      {"num_attention_heads", "base_num_query_heads"},
      {"num_hidden_layers", "base_num_decoder_layers"},
      {"num_key_value_heads", "base_num_kv_heads"},
      {"rms_norm_eps", "normalization_layer_epsilon"},
      {"rope_theta", "rope_max_timescale"},
      {"tie_word_embeddings", "logits_via_embedding"},
      // axolotl
      {"base_model", "load_parameters_path"},
      {"datasets", "dataset_path"},
      {"evals_per_epoch", "eval_interval"},
      {"lora_model_dir", "load_adapter_path"},
      {"lora_target_linear", "lora_targets"},
      {"lora_target_modules", "lora_targets"},
      {"lr_scheduler", "cosine_learning_rate_final_fraction"},
      {"micro_batch_size", "per_device_batch_size"},
      {"num_epochs", "steps"},
      {"sample_packing", "packing"},
      {"saves_per_epoch", "checkpoint_period"},
      {"sequence_len", "max_target_length"},
      {"test_datasets", "eval_dataset_path"},
      // and elsewhere
      {"accelerator", "backend"},
      {"batch_size", "per_device_batch_size"},
      {"block_size", "max_target_length"},
      {"cpu_offload", "optimizer_memory_host_offload"},
      {"data_path", "dataset_path"},
      {"deepspeed", "ici_fsdp_parallelism"},
      {"device", "backend"},
      {"device_type", "backend"},
      {"epochs", "steps"},
      {"fsdp", "ici_fsdp_parallelism"},
      {"grad_accum", "gradient_accumulation_steps"},
      {"grad_clip", "gradient_clipping_threshold"},
      {"max_iters", "steps"},
      {"max_seq_len", "max_target_length"},
      {"model", "model_name"},
      {"model_path", "load_parameters_path"},
      {"n_gpu", "ici_fsdp_parallelism"},
      {"nproc_per_node", "ici_fsdp_parallelism"},
      {"num_devices", "ici_fsdp_parallelism"},
      {"num_gpus", "ici_fsdp_parallelism"},
      {"num_steps", "steps"},
      {"policies", "remat_policy"},
      {"precision", "dtype"},
      {"sequence_length", "max_target_length"},
      {"tokenizer", "tokenizer_path"},
      {"train_data", "dataset_path"},
      {"val_data", "eval_dataset_path"},
      {"zero_stage", "ici_fsdp_parallelism"},
  };
  return kKeys;
}

namespace {

const std::map<std::string, std::string>& reasons_by_other_name() {
  static const std::string kNoMesh = "not offered: devices share data and weights alone",
                           kNoExperts = "not offered: mixtures of experts",
                           kNoServices = "not offered: records are files of the run's folder",
                           kNoQuantization = "not offered: products of fewer than 16 bits",
                           kAdamW = "leave it out: the optimizer is AdamW",
                           kAttention =
                               "leave it out: the device decides which kernel of attention serves",
                           kEveryStep = "leave it out: every step is logged",
                           kNoDropout = "not offered: training knows no dropout",
                           kNothing = "leave it out: there is nothing to choose here";
  static const std::map<std::string, std::string> kReasons{
      {"attention", kAttention},
      {"attention_dropout", kNoDropout},
      {"attn_implementation", kAttention},
      {"bnb_4bit_compute_dtype", kNoQuantization},
      {"bnb_4bit_quant_type", kNoQuantization},
      {"compile", kNothing},
      {"dataloader_num_workers", kNothing},
      {"dcn_tensor_parallelism", kNoMesh},
      {"dropout", kNoDropout},
      {"enable_goodput_recording", kNoServices},
      {"enable_tensorboard", kNoServices},
      {"enable_wandb", kNoServices},
      {"expert_parallel_degree", kNoExperts},
      {"flash_attention", kAttention},
      {"flash_attn", kAttention},
      {"gcs_metrics", kNoServices},
      {"grad_dtype", "leave it out: gradients are added up in float32"},
      {"ici_context_parallelism", kNoMesh},
      {"ici_expert_parallelism", kNoExperts},
      {"ici_pipeline_parallelism", kNoMesh},
      {"ici_sequence_parallelism", kNoMesh},
      {"ici_tensor_parallelism", kNoMesh},
      {"load_in_4bit", kNoQuantization},
      {"load_in_8bit", kNoQuantization},
      {"log_freq", kEveryStep},
      {"log_period", kEveryStep},
      {"logging_steps", kEveryStep},
      {"logging_strategy", kEveryStep},
      {"lora_dropout", kNoDropout},
      {"num_experts", kNoExperts},
      {"num_experts_per_tok", kNoExperts},
      {"opt_type", kAdamW},
      {"optim", kAdamW},
      {"optimizer", kAdamW},
      {"optimizer_type", kAdamW},
      {"pipeline_parallel_degree", kNoMesh},
      {"quantization", kNoQuantization},
      {"push_to_hub", kNoServices},
      {"report_to", kNoServices},
      {"scan_layers", "leave it out: layers of one kind are always scanned"},
      {"tensor_parallel_degree", kNoMesh},
      {"tensor_parallel_size", kNoMesh},
      {"tf32", kNothing},
      {"torch_compile", kNothing},
      {"use_flash_attention", kAttention},
      {"use_flash_attention_2", kAttention},
      {"use_vertex_tensorboard", kNoServices},
      {"wandb_project", kNoServices},
      {"xformers_attention", kAttention},
  };
  return kReasons;
}

// Its value under `name`, or under that without its section; nullptr where there is neither.
const std::string* find_by_name(const std::map<std::string, std::string>& values,
                                const std::string& name) {
  for (const std::string& known : {name, name.substr(name.rfind('.') + 1)})
    if (const auto value = values.find(known); value != values.end()) return &value->second;
  return nullptr;
}

}  // namespace

std::string key_for_other_name(const std::string& name) {
  if (const std::string* key = find_by_name(keys_by_other_name(), name)) return *key;
  const std::string last = name.substr(name.rfind('.') + 1);
  return last != name && find_key(last) ? last : "";
}

std::string value_for_other_name(const std::string& value, std::span<const std::string> choices) {
  static const std::map<std::string, std::string> kValues{
      {"bf16", "bfloat16"},    {"chat", "documents"}, {"csv", "documents"},
      {"f32", "float32"},      {"float", "float32"},  {"float16", "bfloat16"},
      {"fp16", "bfloat16"},    {"fp32", "float32"},   {"fp8", "8bit"},
      {"gpu", "cuda"},         {"half", "bfloat16"},  {"hf", "documents"},
      {"int8", "8bit"},        {"json", "documents"}, {"jsonl", "documents"},
      {"no", "false"},         {"nvidia", "cuda"},    {"parquet", "documents"},
      {"random", "synthetic"}, {"text", "documents"}, {"txt", "documents"},
      {"uint8", "8bit"},       {"yes", "true"},       {"0", "false"},
      {"1", "true"},           {"8-bit", "8bit"},
  };
  std::string lower = value;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (std::ranges::find(choices, lower) != choices.end()) return lower;
  const auto meant = kValues.find(lower);
  const bool is_choice =
      meant != kValues.end() && std::ranges::find(choices, meant->second) != choices.end();
  return is_choice ? meant->second : "";
}

std::string reason_for_no_key(const std::string& name) {
  const std::string* reason = find_by_name(reasons_by_other_name(), name);
  return reason ? *reason : "";
}

}  // namespace longshore::trainer
