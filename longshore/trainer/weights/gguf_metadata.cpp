#include "longshore/trainer/weights/gguf_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>
#include <variant>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/problem_list.h"
#include "longshore/base/text.h"
#include "longshore/data/files/small_file.h"
#include "longshore/data/gguf/gguf_vocabulary.h"
#include "longshore/data/tokenizers/sentencepiece_json.h"
#include "longshore/models/families/fields.h"
#include "longshore/models/families/limits.h"
#include "longshore/trainer/weights/text_files.h"

namespace longshore::trainer {
namespace {

using data::GgufEntry;
using data::GgufValue;
using models::DecoderConfig;
using models::GgufFamily;
using models::GgufHead;
using models::GgufWindows;

bool knows_windows(const GgufFamily& family) { return family.windows != GgufWindows::none; }

std::vector<bool> by_layer(const DecoderConfig& model,
                           bool (*said)(const DecoderConfig&, int64_t)) {
  std::vector<bool> layers;
  for (int64_t layer = 0; layer < model.layers; ++layer) layers.push_back(said(model, layer));
  return layers;
}

std::vector<bool> windows(const DecoderConfig& model) {
  return by_layer(model, models::has_window);
}

bool any(const std::vector<bool>& layers) {
  return std::ranges::find(layers, true) != layers.end();
}

constexpr std::string_view kRopeFactor = "rope_scaling/factor";

double score_scale(const DecoderConfig& model) {
  if (model.family->layer.unscaled_scores) return 1;
  return model.attention_multiplier.value_or(
      1 / std::sqrt(model.query_pre_attn_scalar.value_or(static_cast<double>(model.head_dim))));
}

// In full, or rounded to it.
bool fits_float32(double number) {
  return std::abs(number) >= std::numeric_limits<float>::min() &&
         std::abs(number) <= std::numeric_limits<float>::max();
}

// Families of which a file can say it.
bool says_score_scale(const DecoderConfig& model) {
  return find_field(*model.family, models::kAttentionMultiplier) != nullptr;
}

double yarn_attention_factor_there(const models::YarnRopeScaling& yarn) {
  return models::yarn_attention_factor(yarn.factor);
}

// --- what is refused

void find_what_differs(const DecoderConfig& model, const GgufFamily& family, ProblemList& found) {
  const models::LayerTraits& layer = model.family->layer;
  if (model.vision) found.add("reads images; expected a text model, or use_multimodal=false");
  if (family.head == GgufHead::embedding && !model.tied_embeddings)
    found.add("tie_word_embeddings: found false, expected true");
  if (family.head == GgufHead::own && model.tied_embeddings)
    found.add("tie_word_embeddings: found true, expected false");
  if (model.attention_bias && layer.output_bias && !family.output_bias)
    found.add("attention_bias: found true, expected false");
  if (!model.attention_bias && family.needs_attention_bias)
    found.add("attention_bias: found false, expected true");
  if (model.mlp_bias && !family.mlp_bias) found.add("mlp_bias: found true, expected false");
  if (family.needs_caps && model.attention_cap == 0)
    found.add("attn_logit_softcapping: found none, expected one");
  if (family.needs_caps && model.logits_cap == 0)
    found.add("final_logit_softcapping: found none, expected one");
  if (layer.activation == models::Activation::clamped_silu &&
      (model.activation_alpha != 1.702 || model.activation_limit != 7))
    found.add(fmt::format("found swiglu_alpha {} and swiglu_limit {}, expected 1.702 and 7",
                          model.activation_alpha, model.activation_limit));
  if (!model.max_position_embeddings)
    found.add("max_position_embeddings: found none, expected a number of tokens");
}

void find_what_differs_in_layers(const DecoderConfig& model, const GgufFamily& family,
                                 ProblemList& found) {
  const int64_t interval = family.nope_layer_interval;
  for (int64_t layer = 0; layer < model.layers; ++layer)
    if (const bool turns = interval == 0 || (layer + 1) % interval != 0;
        has_rope(model, layer) != turns) {
      found.add(fmt::format("layer {}: found {} RoPE, expected it {}", layer, turns ? "no" : "a",
                            interval == 0 ? std::string("in all layers")
                                          : fmt::format("in all but each {}th", interval)));
      break;
    }
  // It takes keys and values from the last of these two that is like the layer.
  if (const int64_t own = model.layers - model.kv_shared_layers; model.kv_shared_layers > 0)
    if (own < 2 || has_window(model, own - 1) || !has_window(model, own - 2))
      found.add(
          fmt::format("num_kv_shared_layers: found {}, expected a layer with a window and then "
                      "one without before the layers that share",
                      model.kv_shared_layers));
  const bool has_windows = any(windows(model));
  if (family.windows == GgufWindows::always && !has_windows)
    found.add("sliding_window: found none, expected one");
  if (family.windows != GgufWindows::chunked) return;
  if (has_windows && model.window != models::kGgufChunk)
    found.add(fmt::format("attention_chunk_size: found {}, expected {}", model.window,
                          models::kGgufChunk));
  if (!has_windows) found.add("attention_chunk_size: found none, expected one");
  if (!model.has_unrotated_temperature || model.unrotated_temperature_beta != 0.1 ||
      model.unrotated_temperature_length != models::kGgufChunk)
    found.add(
        fmt::format("attn_temperature_tuning: expected it, with attn_scale 0.1 and "
                    "floor_scale {}",
                    models::kGgufChunk));
}

void find_what_differs_in_experts(const DecoderConfig& model, const GgufFamily& family,
                                  ProblemList& found) {
  const models::ExpertTraits& experts = model.family->layer.experts;
  if (experts.router.empty()) return;
  const bool goes_by_step = !experts.shared.empty();
  if (goes_by_step && model.experts == 0) found.add("num_local_experts: found 0, expected some");
  if (goes_by_step && moe_layer_step(model) == 0)
    found.add("moe_layers: expected each so many'th layer");
  if (experts.may_be_absent && layers_with_experts(model) != model.layers)
    found.add("mlp_only_layers: found layers without experts, expected none");
  if (!experts.normalizes && !experts.has_sigmoid_scores && !model.normalizes_experts)
    found.add("norm_topk_prob: found false, expected true");
  // Llama 4's larger model is known by it.
  constexpr int64_t kWithoutQkNorm = 128;
  if (family.windows == GgufWindows::chunked &&
      model.has_qk_norm != (model.experts != kWithoutQkNorm))
    found.add(fmt::format("use_qk_norm: found {}, expected {} with {} experts", model.has_qk_norm,
                          !model.has_qk_norm, model.experts));
}

void find_what_differs_in_rope(const DecoderConfig& model, const GgufFamily& family,
                               ProblemList& found) {
  if (std::holds_alternative<models::Llama3RopeScaling>(model.rope_scaling) &&
      !family.reads_rope_factors)
    found.add("rope_type: found llama3, expected default, linear or yarn");
  const auto* yarn = std::get_if<models::YarnRopeScaling>(&model.rope_scaling);
  if (yarn && !family.reads_yarn_betas && (yarn->beta_fast != 32 || yarn->beta_slow != 1))
    found.add(fmt::format("yarn: found beta_fast {} and beta_slow {}, expected 32 and 1",
                          yarn->beta_fast, yarn->beta_slow));
  if (yarn && yarn->original_max_position_embeddings > models::kMaxLength)
    found.add(fmt::format("original_max_position_embeddings: found {}, expected at most {}",
                          yarn->original_max_position_embeddings, models::kMaxLength));
  if (model.temperature_beta != 0 && !yarn)
    found.add("llama_4_scaling_beta: found one without yarn");
}

// --- entries

class Entries {
 public:
  explicit Entries(const GgufFamily& family) : prefix_(std::string(family.architecture) + ".") {}

  void add(const std::string& key, GgufValue value) {
    entries_.push_back({prefix_ + key, std::move(value)});
  }
  void add_count(const std::string& key, int64_t count) { add(key, static_cast<uint32_t>(count)); }
  // `said_by` is the key of config.json.
  void add_number(const std::string& key, std::string_view said_by, double number) {
    add(key, gguf_number(said_by, number));
  }
  // One where it is the same for all layers.
  void add_counts(const std::string& key, const std::vector<int32_t>& counts) {
    if (std::ranges::count(counts, counts[0]) == std::ssize(counts))
      add_count(key, counts[0]);
    else
      add(key, counts);
  }

  std::vector<GgufEntry> take() && { return std::move(entries_); }

 private:
  std::string prefix_;
  std::vector<GgufEntry> entries_;
};

// A field of the model under the file's key.
void add_field(const DecoderConfig& model, const models::Field& field, const std::string& key,
               Entries& entries) {
  entries.add_number(key, hf_key(*model.family, field), value(field, model));
}

void add_attention(const DecoderConfig& model, const GgufFamily& family, Entries& entries) {
  std::vector<int32_t> heads, mlps;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    heads.push_back(static_cast<int32_t>(kv_heads(model, has_window(model, layer))));
    mlps.push_back(static_cast<int32_t>(mlp_width(model, kv_sharing(model, layer))));
  }
  entries.add_counts("feed_forward_length", mlps);
  entries.add_count("attention.head_count", model.query_heads);
  entries.add_counts("attention.head_count_kv", heads);
  const int64_t dim = head_dim(model, false), window_dim = head_dim(model, true);
  entries.add_count("attention.key_length", dim);
  entries.add_count("attention.value_length", dim);
  add_field(model, models::kNormEpsilon, "attention.layer_norm_rms_epsilon", entries);
  if (says_score_scale(model))
    entries.add_number("attention.scale", hf_key(*model.family, models::kAttentionMultiplier),
                       score_scale(model));
  if (model.attention_cap > 0)
    add_field(model, models::kAttentionCap, "attn_logit_softcapping", entries);
  if (model.logits_cap > 0)
    add_field(model, models::kLogitsCap, "final_logit_softcapping", entries);
  const std::vector<bool> windowed = windows(model);
  if (!knows_windows(family) || !any(windowed)) return;
  entries.add_count("attention.sliding_window", model.window);
  entries.add("attention.sliding_window_pattern", windowed);
  if (find_field(*model.family, models::kGlobalHeadDim)) {
    entries.add_count("attention.key_length_swa", window_dim);
    entries.add_count("attention.value_length_swa", window_dim);
    entries.add_count("rope.dimension_count_swa", rotary_dim(model, true));
  }
  if (model.window_rope_base)
    add_field(model, models::kWindowRopeBase, "rope.freq_base_swa", entries);
}

void add_rope(const DecoderConfig& model, const GgufFamily& family, Entries& entries) {
  entries.add_count("rope.dimension_count", rotary_dim(model, false));
  add_field(model, models::kRopeBase, "rope.freq_base", entries);
  auto add_scaling = [&](const char* type, double factor) {
    entries.add("rope.scaling.type", std::string(type));
    entries.add_number("rope.scaling.factor", kRopeFactor, factor);
  };
  if (const auto* linear = std::get_if<models::LinearRopeScaling>(&model.rope_scaling))
    add_scaling("linear", linear->factor);
  if (const auto* yarn = std::get_if<models::YarnRopeScaling>(&model.rope_scaling)) {
    add_scaling("yarn", yarn->factor);
    entries.add_count("rope.scaling.original_context_length",
                      std::llround(yarn->original_max_position_embeddings));
    entries.add_number("rope.scaling.attn_factor", "rope_scaling/attention_factor",
                       yarn->attention_factor / yarn_attention_factor_there(*yarn));
    if (family.reads_yarn_betas) {
      entries.add_number("rope.scaling.yarn_beta_fast", "rope_scaling/beta_fast", yarn->beta_fast);
      entries.add_number("rope.scaling.yarn_beta_slow", "rope_scaling/beta_slow", yarn->beta_slow);
    }
  }
  if (model.temperature_beta > 0)
    add_field(model, models::kTemperatureBeta, "attention.temperature_scale", entries);
}

void add_experts(const DecoderConfig& model, Entries& entries) {
  if (model.experts == 0) return;
  entries.add_count("expert_count", model.experts);
  entries.add_count("expert_used_count", model.experts_per_token);
  entries.add_count("expert_feed_forward_length", expert_width(model));
  if (!model.family->layer.experts.shared.empty())
    entries.add_count("interleave_moe_layer_step", moe_layer_step(model));
}

// --- texts

// The text of the tokenizer.json that the tokenizer, whose file has `bytes`, is, or would be.
std::string tokenizer_json(const SourceModel::Text& text, std::string bytes) {
  const data::Tokenizer& tokenizer = *text.tokenizer;
  if (!tokenizer.extended_json().empty()) return tokenizer.extended_json();
  if (!tokenizer.is_sentencepiece()) return bytes;
  if (const std::string_view type = data::sentencepiece_model_type(bytes);
      type != "BPE" && type != "char")
    throw DataError(
        fmt::format("found a sentencepiece model of type {}, expected BPE or char, "
                    "of which alone files for llama.cpp are made",
                    type));
  const std::vector<std::string> chat_tokens = text.chat_template
                                                   ? text.chat_template->special_tokens(tokenizer)
                                                   : std::vector<std::string>();
  return data::tokenizer_json_of_sentencepiece(bytes, chat_tokens);
}

data::GgufVocabulary vocabulary(const SourceModel::Text& text, const DecoderConfig& model) {
  const data::Tokenizer& tokenizer = *text.tokenizer;
  std::string bytes = data::read_small_file(tokenizer.path(), kMostMib);
  try {
    return data::gguf_vocabulary(
        tokenizer_json(text, std::move(bytes)),
        {.size = model.vocabulary, .character_bpe = gguf_family(model).character_bpe});
  } catch (const DataError& error) {
    throw DataError(path_text(tokenizer.path()) + ": " + error.what());
  }
}

// What is to be said of tokens that the model has no rows for.
std::string left_out_text(std::span<const data::AddedToken> tokens, int64_t vocabulary) {
  constexpr size_t kMostNamed = 3;
  if (tokens.empty()) return "";
  std::vector<std::string> named;
  for (const data::AddedToken& token : tokens.first(std::min(tokens.size(), kMostNamed)))
    named.push_back(fmt::format("{} of id {}", in_quotes(token.content), token.id));
  if (tokens.size() > kMostNamed) named.push_back("...");
  return fmt::format("left out {} beyond the {} of the model's vocabulary: {}",
                     plural(std::ssize(tokens), "special token"), vocabulary, join(named));
}

// The tokens that begin and end texts, and those that say so.
class SpecialIds {
 public:
  SpecialIds(const SourceModel& source, const data::Tokenizer& tokenizer)
      : source_(source), tokenizer_(tokenizer) {
    try {
      of_configs_ = text_end_ids(source.files());
    } catch (const DataError& error) {  // which begins with the file
      throw DataError(path_text(source.folder() / "") + error.what());
    }
  }

  // -1 where there is none.
  int32_t bos() const {
    const int32_t id = tokenizer_.bos_id();
    if (id >= 0 || of_configs_.bos.empty()) return within("bos_token", id, id);
    return within("bos_token", of_configs_.bos[0], id);
  }

  // The tokenizer's first.
  std::vector<int32_t> eos() const {
    std::vector<int32_t> ids = of_configs_.eos;
    const int32_t first = tokenizer_.eos_id();
    if (first >= 0) {
      std::erase(ids, first);
      ids.insert(ids.begin(), first);
    }
    for (const int32_t id : ids) within("eos_token", id, first);
    return ids;
  }

 private:
  int32_t within(const char* name, int32_t id, int32_t of_tokenizer) const {
    const int64_t size = source_.config().decoder.vocabulary;
    if (id < size) return id;
    const std::string expected =
        fmt::format(" of id {}, expected ids below the {} of the model's vocabulary", id, size);
    if (id == of_tokenizer)
      throw DataError(fmt::format("{}: {}: found {}{}", path_text(tokenizer_.path()), name,
                                  in_quotes(tokenizer_.spelling(id)), expected));
    throw DataError(fmt::format("{}: {}_id of generation_config.json or config.json: found one{}",
                                path_text(source_.folder()), name, expected));
  }

  const SourceModel& source_;
  const data::Tokenizer& tokenizer_;
  TextEndIds of_configs_;
};

}  // namespace

const GgufFamily& gguf_family(const DecoderConfig& model) {
  if (const GgufFamily* family = find_gguf_family(*model.family)) return *family;
  std::string known;
  for (const models::Family* family : models::families())
    if (find_gguf_family(*family)) known += (known.empty() ? "" : ", ") + std::string(family->name);
  throw DataError(fmt::format("model_type: found {}, expected one that llama.cpp knows: {}",
                              model.family->name, known));
}

void require_gguf_model(const DecoderConfig& model) {
  const GgufFamily& family = gguf_family(model);
  ProblemList found;
  find_what_differs(model, family, found);
  find_what_differs_in_layers(model, family, found);
  find_what_differs_in_experts(model, family, found);
  find_what_differs_in_rope(model, family, found);
  if (!found.empty())
    throw DataError(fmt::format("is no model that llama.cpp's {} can run:\n  {}",
                                family.architecture, found.text()));
}

int64_t gguf_context_length(const DecoderConfig& model) {
  const int64_t tokens = model.max_position_embeddings.value();
  if (knows_windows(gguf_family(model)) || !any(windows(model))) return tokens;
  return std::min(tokens, model.window);
}

double gguf_query_factor(const DecoderConfig& model) {
  if (says_score_scale(model) || model.family->layer.unscaled_scores) return 1;
  const GgufFamily& family = gguf_family(model);
  const bool by_width = model.layers == family.layers_scaled_by_width;
  const auto divided_by =
      static_cast<double>(by_width ? model.width / model.query_heads : model.head_dim);
  const double scale = score_scale(model);
  if (scale == 1 / std::sqrt(divided_by)) return 1;
  const double factor = scale * std::sqrt(divided_by);
  if (!fits_float32(factor))
    throw DataError(fmt::format(
        "{}: found {}, expected one whose root float32 can hold, as queries are divided by it",
        hf_key(*model.family, models::kQueryPreAttnScalar), model.query_pre_attn_scalar.value()));
  return factor;
}

std::vector<float> gguf_rope_factors(const DecoderConfig& model) {
  const int64_t pairs = rotary_dim(model, false) / 2;
  std::vector<float> factors;
  if (const auto* llama3 = std::get_if<models::Llama3RopeScaling>(&model.rope_scaling)) {
    gguf_number(kRopeFactor, llama3->factor);
    for (int64_t i = 0; i < pairs; ++i) {
      const double frequency =
          std::pow(model.rope_base, -static_cast<double>(i) / static_cast<double>(pairs));
      const double turns =
          frequency * llama3->original_max_position_embeddings / (2 * std::numbers::pi);
      const double between = llama3->high_freq_factor - llama3->low_freq_factor;
      double kept = turns < llama3->high_freq_factor ? 0 : 1;
      if (between > 0) kept = std::clamp((turns - llama3->low_freq_factor) / between, 0., 1.);
      factors.push_back(static_cast<float>(1 / ((1 - kept) / llama3->factor + kept)));
    }
  }
  if (const auto* some = std::get_if<models::ProportionalRopeScaling>(&model.rope_scaling)) {
    constexpr float kNever = 1e30F;  // turns nothing within any text
    const auto turned = static_cast<int64_t>(some->turned * static_cast<double>(pairs));
    factors.assign(static_cast<size_t>(turned), gguf_number(kRopeFactor, some->factor));
    factors.resize(static_cast<size_t>(pairs), kNever);
  }
  return factors;
}

float gguf_number(std::string_view key, double number) {
  if (number != 0 && !fits_float32(number))
    throw DataError(
        fmt::format("{}: found {}, expected 0, or from {:.5g} to {:.5g}, as GGUF has float32", key,
                    number, std::numeric_limits<float>::min(), std::numeric_limits<float>::max()));
  return static_cast<float>(number);
}

std::vector<GgufEntry> gguf_hyperparameters(const DecoderConfig& model) {
  const GgufFamily& family = gguf_family(model);
  Entries entries(family);
  entries.add_count("vocab_size", model.vocabulary);
  entries.add_count("context_length", gguf_context_length(model));
  entries.add_count("embedding_length", model.width);
  entries.add_count("block_count", model.layers);
  add_attention(model, family, entries);
  add_rope(model, family, entries);
  add_experts(model, entries);
  for (const auto& [field, key] : {std::pair{&models::kEmbeddingMultiplier, "embedding_scale"},
                                   std::pair{&models::kResidualMultiplier, "residual_scale"},
                                   std::pair{&models::kLogitsScaling, "logit_scale"}})
    if (find_field(*model.family, *field)) add_field(model, *field, key, entries);
  if (find_field(*model.family, models::kPerLayerWidth)) {
    entries.add_count("embedding_length_per_layer_input", model.per_layer_width);
    entries.add_count("attention.shared_kv_layers", model.kv_shared_layers);
  }
  return std::move(entries).take();
}

GgufText gguf_text(const SourceModel& source) {
  const SourceModel::Text text = source.text();
  if (!text.tokenizer) return {.entries = {{"tokenizer.ggml.model", std::string("none")}}};
  const DecoderConfig& model = source.config().decoder;
  data::GgufVocabulary known = vocabulary(text, model);
  std::vector<GgufEntry>& entries = known.entries;
  auto add_id = [&](const char* name, int64_t id) {
    if (id >= 0)
      entries.push_back(
          {fmt::format("tokenizer.ggml.{}_token_id", name), static_cast<uint32_t>(id)});
  };
  const SpecialIds ids(source, *text.tokenizer);
  add_id("bos", ids.bos());
  const std::vector<int32_t> eos = ids.eos();
  // It knows three tokens that end what the model writes.
  constexpr const char* kEnds[] = {"eos", "eot", "eom"};
  for (size_t i = 0; i < std::min(eos.size(), std::size(kEnds)); ++i) add_id(kEnds[i], eos[i]);
  add_id("padding", model.pad_token.value_or(-1));
  if (text.chat_template)
    entries.push_back({"tokenizer.chat_template", text.chat_template->source()});
  return {std::move(entries), left_out_text(known.left_out, model.vocabulary)};
}

}  // namespace longshore::trainer
