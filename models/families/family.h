// Families of decoders, by the names that Hugging Face's model_type gives them. All that makes a
// family itself stands in its own source in this folder, as a value of the struct below; decoders
// are traced by it, and config.json is read and written by it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::models {

struct Field;

// Of the MLP's gate.
enum class Activation : uint8_t { silu, gelu_tanh };

// Where a layer has norms, by their names: on what attention and MLP read, and on what they give.
// "" where it has none.
struct LayerNorms {
  std::string_view before_attention = "input_layernorm", after_attention,
                   before_mlp = "post_attention_layernorm", after_mlp;

  bool operator==(const LayerNorms&) const = default;
};

// Of query and key, before they are turned: RMSNorm on each head, or on all heads together.
enum class QkNorm : uint8_t { none, of_each_head, of_all_heads };

// What all layers of a family have and no config can change.
struct LayerTraits {
  Activation activation = Activation::silu;
  LayerNorms norms = {};
  double norm_offset = 0;          // added to the weights of norms, which start at 1 minus this
  bool scales_embeddings = false;  // by sqrt(width)
  QkNorm qk_norm = QkNorm::none;
  bool qkv_bias = false;  // on query, key and value, whatever attention_bias says

  bool operator==(const LayerTraits&) const = default;
};

// Which layers of a family may have a window.
enum class Windows : uint8_t {
  none,      // the code of the family knows no windows
  refused,   // it does, but published models have none, and they are not supported
  all,       // all layers, if there is a sliding_window
  by_layer,  // those that layer_types say, or else a period
};

// A field that the family's code reads in config.json; what counts where the file does not say.
struct FamilyField {
  const Field* field;
  double otherwise = 0;
};

// The keys of config.json that differ between families, beside those that all have (see fields.h).
struct HfKeys {
  const char* activation = "hidden_act";
  std::vector<std::string> activations = {};  // words for the family's; the first is written
  // Sizes that have to be said: the defaults of transformers are nobody's intention.
  std::vector<std::string> required = {};
  std::vector<FamilyField> fields = {};
  // Keys that must be false or 0: what they stand for is not there.
  std::vector<std::string> off = {};
  // Keys that are written as null, so that nobody takes another family's default for them.
  std::vector<std::string> null = {};
  // What counts where nothing is said:
  bool tied_embeddings = false;
  std::optional<int64_t> pad_token = {};
  double rope_base = 10000;
  double norm_epsilon = 1e-6;
  Windows windows = Windows::none;
  int64_t full_attention_period = 0;  // where layer_types do not say it
  const char* period_key = nullptr;   // the older spelling of layer_types
  int64_t nope_layer_interval = 0;    // where no_rope_layers do not say it; 0: no key says it
  double window_rope_base = 0;        // 0: windows turn as other layers do, and no key says else
};

struct Family {
  const char* name;      // model_type
  const char* hf_class;  // the first of `architectures`
  LayerTraits layer;
  HfKeys hf;
};

extern const Family kLlama, kMistral, kQwen2, kQwen3, kGemma, kGemma2, kGemma3Text, kOlmo2,
    kGranite, kSmolLm3;

// All of them; the first of several that compute the same is the one they are compared as.
const std::vector<const Family*>& families();

// nullptr if there is none of that name.
const Family* find_family(std::string_view name);

// Whether layers of the two compute the same from the same fields: a Mistral is a Llama by another
// name, whose config.json has other keys.
bool computes_as(const Family& one, const Family& other);

}  // namespace longshore::models
