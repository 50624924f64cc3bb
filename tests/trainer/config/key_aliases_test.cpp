#include "longshore/trainer/config/key_aliases.h"

#include "longshore/trainer/config/keys.h"
#include "tests/trainer/config/config_fixture.h"

namespace longshore::trainer {
namespace {

class KeyAliasesTest : public ConfigTest {};

TEST_F(KeyAliasesTest, LeadToTheKeyHere) {
  for (const auto& [name, key] : std::map<std::string, std::string>{
           {"mu_dtype", "moment_dtype"},
           {"optimizer.name", "opt_type"},
           {"training.seq_len", "max_target_length"},
           {"activation_checkpoint.mode", "remat_policy"},
           {"adapter_name_or_path", "load_adapter_path"},
           {"checkpoint.keep_latest_k", "max_num_checkpoints_to_keep"},
           {"micro_batch_size", "per_device_batch_size"},
           {"checkpoint.enable", "enable_checkpointing"},
           {"num_attention_heads", "base_num_query_heads"},
           {"per_device_train_batch_size", "per_device_batch_size"},
           {"metrics.log_freq", "log_period"},
           {"logging_steps", "log_period"},
           {"adam_epsilon", "adam_eps"}}) {
    EXPECT_NE(find_key(key), nullptr) << key;
    EXPECT_EQ(find_key(name), nullptr) << name;
    EXPECT_EQ(key_for_other_name(name), key);
    EXPECT_EQ(error("", {name + "=1"}),
              "command line " + name +
                  ": found an unknown key, expected one that --help lists; nearest: " + key);
  }
}

// On the command line and in YAML.
TEST_F(KeyAliasesTest, SayHowTheirValuesTranslate) {
  for (const auto& [name, hint] : std::map<std::string, std::string>{
           {"gradient_checkpointing", "remat_policy (true is full, false none)"},
           {"val_set_size",
            "eval_fraction (a part of the documents, below 1; eval_dataset_path is a file of its "
            "own)"},
           {"warmup_steps", "warmup_steps_fraction (those steps, divided by all)"},
           {"lr_scheduler.warmup_steps", "warmup_steps_fraction (those steps, divided by all)"},
           {"lora_target_linear", "lora_targets (true is all-linear)"},
           {"adapter",
            "lora_rank (LoRA is a rank above 0; qlora has frozen_weight_dtype: nf4 beside it)"},
           {"use_tensorboard", "tensorboard_dir (true is a folder, such as runs/tensorboard)"},
           {"chat_template_jinja", "chat_template (a name or a file)"},
           {"weight_decay",
            "adam_weight_decay (of AdamW; lion_weight_decay and sgd_weight_decay of the others)"},
           {"fp16", "dtype (float16 is not offered; bfloat16 is)"}}) {
    EXPECT_TRUE(error("", {name + "=1"}).ends_with("; nearest: " + hint)) << name;
    EXPECT_TRUE(error(name + ": 1\n").ends_with("; nearest: " + hint)) << name;
  }
  for (const auto& [name, key] : keys_by_other_name()) {
    const std::string what = error("", {name + "=1"}), remark = remark_on_values(name);
    EXPECT_TRUE(what.ends_with("; nearest: " + key + (remark.empty() ? "" : " (" + remark + ")")))
        << what;
  }
  for (const Key& key : config_keys()) EXPECT_EQ(remark_on_values(key.name), "") << key.name;
}

TEST_F(KeyAliasesTest, ValuesLeadToTheKeyThatTakesThem) {
  for (const std::string number : {"1.0", "0", "5", "1e-1"})
    EXPECT_TRUE(error("", {"gradient_clipping=" + number})
                    .ends_with("; nearest: gradient_clipping_threshold=" + number));
  EXPECT_TRUE(
      error("gradient_clipping: false\n").ends_with("; nearest: gradient_clipping_threshold=0"));
  EXPECT_TRUE(error("", {"gradient_clipping=globl_norm"}).ends_with("; nearest: global_norm"));
  for (const auto& [setting, nearest] :
       {std::pair<std::string, std::string>{"model_type=LlamaForCausalLM", "llama"},
        {"model_type=Qwen3ForCausalLM", "qwen3"},
        {"add_bos_eos=true", "always"},
        {"opt_type=adamw_bnb_8bit", "adamw moment_dtype=8bit"},
        {"dataset_type=sft", "documents"}})
    EXPECT_TRUE(error("", {setting}).ends_with("; nearest: " + nearest)) << setting;
}

TEST_F(KeyAliasesTest, AreNoneOfOursAndLeadToOneOfOurs) {
  for (const Key& key : config_keys()) EXPECT_EQ(key_for_other_name(key.name), "") << key.name;
  for (const auto& [name, key] : keys_by_other_name()) EXPECT_NE(find_key(key), nullptr) << name;
}

TEST_F(KeyAliasesTest, SayWhyThereIsNoKey) {
  for (const auto& [name, reason] :
       {std::pair{"scan_layers", "leave it out: layers of one kind are always scanned"},
        {"adafactor", "not offered: opt_type is adamw, lion or sgd"},
        {"compile.enable", "leave it out: there is nothing to choose here"},
        {"assistant_only_loss",
         "leave it out: answers and completions are trained on, prompts are not"},
        {"load_in_4bit", "frozen_weight_dtype: nf4"},
        {"compile_topology", "leave it out: plan --hardware NAME plans for another machine"},
        {"memory_estimation.enabled", "leave it out: plan says it"},
        {"loss_watchdog_patience",
         "not offered: on_non_finite says what follows a step that is not finite"},
        {"parallelism.tensor_parallel_degree",
         "not offered: devices share data and weights alone"}}) {
    EXPECT_EQ(key_for_other_name(name), "");
    EXPECT_EQ(error("", {std::string(name) + "=1"}),
              std::string("command line ") + name +
                  ": found an unknown key, expected one that --help lists; " + reason);
  }
  for (const Key& key : config_keys()) EXPECT_EQ(reason_for_no_key(key.name), "") << key.name;
  for (const auto& [name, key] : keys_by_other_name()) EXPECT_EQ(reason_for_no_key(name), "");
}

TEST_F(KeyAliasesTest, OfSectionsAreOurKeysWithinThem) {
  for (const std::string key : {"steps", "seed", "dataset_path"}) {
    const std::string found = error("", {"training." + key + "=1"});
    EXPECT_TRUE(found.ends_with("nearest: " + key)) << found;
  }
}

// Where the section changes what its keys mean, they lead nowhere by themselves.
TEST_F(KeyAliasesTest, OfSomeSectionsAreOthersWithinThem) {
  for (const auto& [name, key] :
       {std::pair<std::string, std::string>{"eval.interval", "eval_interval"},
        {"interval", "checkpoint_period"},
        {"validation.interval", "eval_interval"},
        {"zero_optimization.stage", "ici_fsdp_parallelism"},
        {"stage", "dataset_type"},
        {"offload_param.device", "parameter_memory_host_offload"},
        {"zero_optimization.offload_param.device", "parameter_memory_host_offload"},
        {"a.b.offload_optimizer.device", "optimizer_memory_host_offload"},
        {"eval.dataset", "eval_dataset_path"},
        {"validation.seq_len", ""},
        {"validation.local_batch_size", ""},
        {"evaluation.steps", ""},
        {"logging.interval", "log_period"}})
    EXPECT_EQ(key_for_other_name(name), key) << name;
}

TEST_F(KeyAliasesTest, LeaveMisspellingsAlone) {
  EXPECT_EQ(key_for_other_name("remat_polcy"), "");
  EXPECT_TRUE(error("", {"remat_polcy=full"}).ends_with("nearest: remat_policy"));
}

}  // namespace
}  // namespace longshore::trainer
