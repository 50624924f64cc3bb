// Families of decoders, by the names that Hugging Face's model_type gives them. All that makes a
// family itself stands in its own source in this folder, as a value of the struct below; decoders
// are traced by it, and config.json is read and written by it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/models/ops/rope/rope_options.h"

namespace longshore::models {

struct Field;

// Of the MLP's gate.
enum class Activation : uint8_t { silu, gelu_tanh, clamped_silu };

// Where a layer has norms, by their names: on what attention and MLP read, and on what they give.
// "" where it has none.
struct LayerNorms {
  std::string_view before_attention = "input_layernorm", after_attention,
                   before_mlp = "post_attention_layernorm", after_mlp;

  bool operator==(const LayerNorms&) const = default;
};

// Of query and key, before they are turned: RMSNorm on each head, or on all heads together. Or
// after that, on each head of layers with RoPE, without weights, where use_qk_norm says so.
enum class QkNorm : uint8_t { none, of_each_head, of_all_heads, unweighted };

// What sliding_window_size is: how many keys a query sees, or a chunk of the text, of which a query
// sees its own.
enum class WindowKind : uint8_t { sliding, chunk };

// Linear layers of one input that are published as one, "self_attn.qkv_proj": its rows are theirs,
// one after the other. Here each has weights of its own.
struct FusedModule {
  std::string_view name;
  std::array<std::string_view, 3> parts;  // "": none

  bool operator==(const FusedModule&) const = default;
};

inline constexpr FusedModule kQkvProj{"self_attn.qkv_proj",
                                      {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}};
inline constexpr FusedModule kGateUpProj{"mlp.gate_up_proj", {"mlp.gate_proj", "mlp.up_proj"}};

// Experts (Fedus et al. 2021, arXiv 2101.03961): which each token goes to, and their weights'
// names.
struct ExpertTraits {
  std::string_view router;  // its module; "": the family has no experts
  // What transformers calls the experts, for adapters: its parameters gate_up_proj and down_proj
  // are those of all.
  std::string_view module;
  // Where checkpoints have each expert's weights by themselves their modules,
  // "mlp.experts.{}.gate_proj", the number of the expert in place of "{}". Else the names of
  // tensors of all experts [E,..].
  std::string_view gate, up, down;
  std::string_view gate_up;  // the tensor that has both, if there is one
  bool takes_turns = false;  // there a column of the gate, then one of up; else all, then all
  bool is_plain = false;     // matrices are [in,out] there and here, else [out,in]
  // Whether peft takes them for what they are. It knows that some are plain; others it takes for
  // [out,in] whatever they are, so that the A of an adapter has the width of what they give.
  bool is_known_as_plain = false;
  bool has_biases = false;          // of the router and of the experts
  bool has_sigmoid_scores = false;  // else a softmax
  bool normalizes = false;     // the weights of a token's experts, whatever norm_topk_prob says
  bool scales_router = false;  // what the router reads is normed and scaled, and what it says too
  bool weighs_inputs = false;  // experts read weighed tokens; else what they give is weighed
  std::string_view shared;     // an MLP that all tokens go through besides
  // Whether some layers may have the other layers' MLP in their place.
  bool may_be_absent = false;
  // Where experts stand beside the layer's MLP: norms on what they read, on what they give, and on
  // what the MLP gives. Else they stand in its place.
  std::string_view norm_before, norm_after, norm_after_mlp;

  bool is_beside() const { return !norm_before.empty(); }
  // Whether checkpoints have each expert's weights by themselves.
  bool are_numbered() const { return gate.find("{}") != std::string_view::npos; }
  bool operator==(const ExpertTraits&) const = default;
};

// What all layers of a family have and no config can change.
struct LayerTraits {
  Activation activation = Activation::silu;
  LayerNorms norms = {};
  double norm_offset = 0;          // added to the weights of norms, which start at 1 minus this
  bool scales_embeddings = false;  // by sqrt(width)
  QkNorm qk_norm = QkNorm::none;
  bool value_norm = false;       // each head of the values, without a weight
  bool unscaled_scores = false;  // whatever head_dim is
  bool has_sinks = false;        // each head has a logit that takes part in its softmax
  WindowKind window = WindowKind::sliding;
  std::string_view mlp = "mlp";  // its module
  ExpertTraits experts = {};
  bool layer_scalar = false;  // what a layer gives is multiplied by a number that does not train
  RopePairs rope_pairs = RopePairs::halves;
  std::vector<FusedModule> fused = {};
  bool qkv_bias = false;    // on query, key and value, whatever attention_bias says
  bool output_bias = true;  // attention_bias is on attention's output too

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
  const char* hf_key = nullptr;  // where the family has another for it
};

// The keys that say which layers have no experts.
enum class DenseLayers : uint8_t {
  none,     // all have them
  by_list,  // mlp_only_layers, decoder_sparse_step
  by_step,  // moe_layers, or interleave_moe_layer_step
};

// A key whose value has to be one of the words, or null.
struct WordKey {
  const char* key;
  std::vector<std::string> words;
};

// The keys of config.json that differ between families, beside those that all have (see fields.h).
struct HfKeys {
  const char* activation = "hidden_act";
  std::vector<std::string> activations = {};  // words for the family's; the first is written
  // Sizes that have to be said: the defaults of transformers are nobody's intention.
  std::vector<std::string> required = {};
  std::vector<FamilyField> fields = {};
  std::vector<WordKey> words = {};
  // Keys that must be false or 0: what they stand for is not there.
  std::vector<std::string> off = {};
  // Keys that are written as null, so that nobody takes another family's default for them.
  std::vector<std::string> null = {};
  // What counts where nothing is said:
  bool tied_embeddings = false;
  std::optional<int64_t> pad_token = {};
  double rope_base = 10000;
  double norm_epsilon = 1e-6;
  bool has_older_rope = true;  // false: no release says RoPE in the older spelling
  bool scales_rope = true;     // false: the code of the family knows no scaling of those here
  int64_t window = 4096;
  int64_t global_head_dim = 0;  // 0: as head_dim
  bool last_is_global = false;  // the last layer has no window, whatever layer_types say
  Windows windows = Windows::none;
  // Of windows that are refused: the first layer that has one by use_sliding_window, where neither
  // layer_types nor max_window_layers say. Nothing: some have one, whatever these say.
  std::optional<int64_t> max_window_layers = {};
  int64_t full_attention_period = 0;            // where layer_types do not say it
  const char* period_key = nullptr;             // the older spelling of layer_types
  std::vector<const char*> expert_counts = {};  // keys of num_experts; the first is written
  const char* experts_flag = nullptr;           // the key that says whether there are any
  DenseLayers dense_layers = DenseLayers::none;
  bool needs_rope = false;             // RoPE's parameters have to be said
  const char* quantization = nullptr;  // quant_method that files may have
  int64_t nope_layer_interval = 0;     // where no_rope_layers do not say it; 0: no key says it
  double window_rope_base = 0;         // 0: windows turn as other layers do, and no key says else
  bool scales_windows = true;          // false: they do so without a scaling
};

struct Family {
  const char* name;      // model_type
  const char* hf_class;  // the first of `architectures`
  LayerTraits layer;
  HfKeys hf;
};

extern const Family kLlama, kMistral, kQwen2, kQwen3, kGemma, kGemma2, kGemma3Text, kOlmo2,
    kGranite, kSmolLm3, kOlmo3, kMinistral3, kPhi3, kGlm4, kGemma4Text, kMixtral, kQwen3Moe,
    kGptOss, kLlama4Text;

// All of them; the first of several that compute the same is the one they are compared as.
const std::vector<const Family*>& families();

// nullptr if the family's code does not read it.
const FamilyField* find_field(const Family& family, const Field& field);

// nullptr if there is none of that name.
const Family* find_family(std::string_view name);

// The linear layers of a decoder layer, as they are published, of which a layer may lack some.
// Experts are not among them. `has_dense_layers`: whether some layers of the model have none.
std::vector<std::string> linear_modules(const LayerTraits& layer, bool has_dense_layers = false);

// Those of its experts, "mlp.experts.gate_up_proj" and "mlp.experts.down_proj"; none of a family
// without.
std::vector<std::string> expert_modules(const LayerTraits& layer);

// Those that can have adapters: both.
std::vector<std::string> adaptable_modules(const LayerTraits& layer, bool has_dense_layers = false);

// Those of all families, each once.
std::vector<std::string> all_linear_modules();

// The published module that the linear layer `module` is, or is a part of.
std::string_view published_module(const LayerTraits& layer, std::string_view module);

// Whether layers of the two compute the same from the same fields: a Mistral is a Llama by another
// name, whose config.json has other keys.
bool computes_as(const Family& one, const Family& other);

}  // namespace longshore::models
