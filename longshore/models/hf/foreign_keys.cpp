#include "longshore/models/hf/foreign_keys.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace longshore::models {
namespace {

using nlohmann::json;

// With any value: where transformers has no code that reads the key for a family, that family's
// models are the same with and without it.
const std::set<std::string>& harmless() {
  static const std::set<std::string> keys{
      // the library, and where a file is from
      "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
      "_commit_hash", "_experts_implementation", "_flash_attn_2_enabled", "_name_or_path",
      "architectures", "attn_implementation", "auto_map", "base_model_tp_plan",
      "chunk_size_feed_forward", "dtype", "experts_implementation", "for_llm_compressor",
      "model_type", "name_or_path", "output_attentions", "output_hidden_states", "pretraining_tp",
      "return_dict", "torch_dtype", "torchscript", "transformers_version", "transformers.js_config",
      "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache", "use_flash_attention",
      "use_flash_attn", "use_return_dict",
      // training
      "embd_pdrop", "gradient_checkpointing", "hidden_dropout", "hidden_dropout_prob",
      "initializer_range", "resid_pdrop", "residual_dropout", "use_gradient_checkpointing",
      // lengths
      "max_length", "max_position_embeddings", "max_seq_len", "max_sequence_length",
      "model_max_length", "seq_length",
      // tokenizers, generation and other tasks
      "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "cache_implementation",
      "classifier_dropout", "decoder_start_token_id", "diversity_penalty", "do_sample",
      "early_stopping", "encoder_no_repeat_ngram_size", "eos_token_id",
      "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id",
      "forced_eos_token_id", "id2label", "is_decoder", "label2id", "length_penalty", "min_length",
      "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_labels", "num_return_sequences",
      "output_scores", "pad_token_id", "prefix", "problem_type", "processor_class",
      "remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "sep_token_id",
      "suppress_tokens", "task_specific_params", "temperature", "tf_legacy_loss",
      "tie_encoder_decoder", "tokenizer_class", "top_k", "top_p", "typical_p", "unk_token_id",
      "cross_attention_hidden_size",
      // other families of longshore/models/families/decoder.h
      "_sliding_window_pattern", "attention_bias", "attn_logit_softcapping",
      "final_logit_softcapping", "head_dim", "hidden_act", "hidden_activation", "layer_types",
      "max_window_layers", "mlp_bias", "no_rope_layer_interval", "query_pre_attn_scalar",
      "rope_local_base_freq", "sliding_window", "sliding_window_pattern", "sliding_window_size",
      "use_bidirectional_attention", "use_sliding_window",
      // sizes of what other keys switch off
      "vocab_size_per_layer_input",
      // names that model types have had before
      "is_llama_config", "is_mistral_config", "is_qwen2_config"};
  return keys;
}

struct Neutral {
  json values;  // a list, of none where only null is neutral
  const char* why;
  bool is_by_layer = false;  // a list, of a neutral value for each layer
};

// Keys that stand for another computation, in transformers or in the code that a model came with:
// the values that say that there is none.
const std::map<std::string, Neutral>& neutral() {
  static const char* kQuantized = "weights that are not quantized";
  static const char* kNotCausal = "since each token sees only those before it";
  static const char* kOneSize = "since all layers have the same sizes";
  static const char* kExperts = "since there are no experts";
  static const char* kRotations = "since whole heads are turned, their halves against each other";
  static const char* kScales = "since nothing else is scaled";
  static const char* kNorms = "since norms are those of the family";
  static const char* kBias = "since biases are those of the family";
  static const char* kAdapter = "since adapters are not part of a model";
  static const std::map<std::string, Neutral> keys{
      {"add_cross_attention", {{false}, "since there is no encoder"}},
      {"alibi", {{false}, "since positions are rotations"}},
      {"attention_chunk_size", {json::array(), "since attention has no chunks"}},
      {"attention_multiplier", {json::array(), kScales}},
      {"bias", {{false}, kBias}},
      {"clip_qkv", {json::array(), "since nothing is clipped"}},
      {"compression_config", {json::array(), kQuantized}},
      {"embedding_multiplier", {{1}, kScales}},
      {"is_causal", {{true}, kNotCausal}},
      {"is_encoder_decoder", {{false}, "since there is no encoder"}},
      {"layer_norm_type", {{"rms", "rmsnorm", "RMSNorm"}, kNorms}},
      {"logit_scale", {{1}, kScales}},
      {"logits_scaling", {{1}, kScales}},
      {"lora_config", {json::array(), kAdapter}},
      {"no_bias", {{true}, kBias}},
      {"no_rope_layers", {{1, true}, "since all layers have rotations", true}},
      {"norm_type", {{"rms", "rmsnorm", "RMSNorm"}, kNorms}},
      {"num_experts", {{0, 1}, kExperts}},
      {"num_local_experts", {{0, 1}, kExperts}},
      {"num_nextn_predict_layers", {{0}, "since there is one next token"}},
      {"parallel_attn", {{false}, "since the MLP follows attention"}},
      {"partial_rotary_factor", {{1}, kRotations}},
      {"per_layer_config", {json::array(), kOneSize}},
      {"pruned_heads", {json::array({json::object(), json::array()}), kOneSize}},
      {"qk_layernorm", {{false}, kNorms}},
      {"qkv_bias", {{false}, kBias}},
      {"quantization_config", {json::array(), kQuantized}},
      {"residual_multiplier", {{1}, kScales}},
      {"rope_interleaved", {{false}, kRotations}},
      {"rope_traditional", {{false}, kRotations}},
      {"rotary_interleaved", {{false}, kRotations}},
      {"rotary_pct", {{1}, kRotations}},
      {"scale_depth", {json::array(), kScales}},
      {"scale_emb", {{1}, kScales}},
      {"use_alibi", {{false}, "since positions are rotations"}},
      {"use_bias", {{false}, kBias}},
      {"use_mrope", {{false}, kRotations}},
      {"use_parallel_residual", {{false}, "since the MLP follows attention"}},
      {"use_qk_norm", {{false}, kNorms}},
      {"use_rope", {{true}, "since positions are rotations"}}};
  return keys;
}

std::string expected_text(const Neutral& key) {
  std::string text;
  for (const json& value : key.values) text += value.dump() + " or ";
  if (key.is_by_layer) text.replace(text.size() - 4, 4, " for each layer, or ");
  text += "null";
  return text + ", " + key.why;
}

}  // namespace

ForeignKeyFinding judge_foreign_key(const std::string& key, const json& value) {
  if (value.is_null() || harmless().contains(key)) return {.meaning = ForeignKey::changes_nothing};
  const auto known = neutral().find(key);
  if (known == neutral().end()) return {};
  const json& values = known->second.values;
  auto is_neutral = [&](const json& each) {
    return std::find(values.begin(), values.end(), each) != values.end();
  };
  if (known->second.is_by_layer
          ? value.is_array() && std::all_of(value.begin(), value.end(), is_neutral)
          : is_neutral(value))
    return {.meaning = ForeignKey::changes_nothing};
  return {.meaning = ForeignKey::changes_results, .expected = expected_text(known->second)};
}

std::vector<std::string> foreign_keys() {
  std::vector<std::string> keys(harmless().begin(), harmless().end());
  for (const auto& [key, value] : neutral()) keys.push_back(key);
  return keys;
}

}  // namespace longshore::models
