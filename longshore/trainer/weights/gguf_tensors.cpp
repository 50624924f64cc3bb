#include "longshore/trainer/weights/gguf_tensors.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "longshore/base/error.h"
#include "longshore/base/pieces.h"
#include "longshore/base/round_up.h"
#include "longshore/models/families/decoder.h"
#include "longshore/models/families/gguf_family.h"
#include "longshore/models/families/lora_config.h"
#include "longshore/trainer/weights/gguf_metadata.h"
#include "longshore/trainer/weights/read_floats.h"

namespace longshore::trainer {
namespace {

using models::DecoderConfig;
using offload::Parameter;

constexpr std::string_view kLayers = "model.layers.";
constexpr const char *kQuery = "attn_q", *kKey = "attn_k", *kQueryNorm = "attn_q_norm",
                     *kRouter = "ffn_gate_inp";

using Names = std::map<std::string, std::string, std::less<>>;

// Modules outside of layers.
const Names& outer_names() {
  static const Names names{{"model.embed_tokens", "token_embd"},
                           {"model.norm", "output_norm"},
                           {"lm_head", "output"},
                           {"model.embed_tokens_per_layer", "per_layer_token_embd"},
                           {"model.per_layer_model_projection", "per_layer_model_proj"},
                           {"model.per_layer_projection_norm", "per_layer_proj_norm"}};
  return names;
}

// "mlp.experts.gate_proj" for "mlp.experts.{}.gate_proj".
std::string without_number(std::string_view module) {
  std::string name(module);
  if (const size_t number = name.find("{}."); number != name.npos) name.erase(number, 3);
  return name;
}

// Modules and parameters of a layer. Names with a dot are whole.
Names layer_names(const DecoderConfig& model) {
  const models::LayerTraits& layer = model.family->layer;
  const models::ExpertTraits& experts = layer.experts;
  Names names{{"self_attn.q_proj", kQuery},          {"self_attn.k_proj", kKey},
              {"self_attn.v_proj", "attn_v"},        {"self_attn.o_proj", "attn_output"},
              {"self_attn.qkv_proj", "attn_qkv"},    {"self_attn.q_norm", kQueryNorm},
              {"self_attn.k_norm", "attn_k_norm"},   {"self_attn.sinks", "attn_sinks"},
              {"mlp.gate_up_proj", "ffn_up"},        {"per_layer_input_gate", "inp_gate"},
              {"per_layer_projection", "proj"},      {"post_per_layer_input_norm", "post_norm"},
              {"layer_scalar", "layer_output_scale"}};
  auto add = [&](std::string_view module, std::string_view name) {
    if (!module.empty()) names.emplace(without_number(module), name);
  };
  auto add_mlp = [&](std::string_view module, const std::string& ending) {
    if (module.empty()) return;
    for (const char* part : {"gate", "up", "down"})
      add(std::string(module) + "." + part + "_proj", std::string("ffn_") + part + ending);
  };
  add(layer.norms.before_attention, "attn_norm");
  add(layer.norms.after_attention, "post_attention_norm");
  add(layer.norms.before_mlp, gguf_family(model).norm_before_mlp);
  add(layer.norms.after_mlp, "post_ffw_norm");
  add_mlp(layer.mlp, "");
  add_mlp(experts.shared, "_shexp");
  add(experts.gate, "ffn_gate_exps");
  add(experts.up, "ffn_up_exps");
  add(experts.down, "ffn_down_exps");
  add(experts.norm_before, "pre_ffw_norm_2");
  add(experts.norm_after, "post_ffw_norm_2");
  add(experts.norm_after_mlp, "post_ffw_norm_1");
  if (experts.router.empty()) return names;
  const std::string router(experts.router);
  add(experts.scales_router ? router + ".proj" : router, kRouter);
  add(router + ".scale", std::string(kRouter) + ".scale");
  add(router + ".per_expert_scale", "ffn_down_exps.scale");
  return names;
}

struct Name {
  std::string module;  // llama.cpp's, without a layer
  std::string whole;   // "blk.0.attn_q.weight"
};

// A parameter's name, or its module's, without one of the endings; that ending as llama.cpp has it.
std::pair<std::string, std::string> without_ending(std::string_view name) {
  for (const auto& [ending, there] :
       {std::pair<std::string_view, const char*>{".weight", ".weight"},
        {".bias", ".bias"},
        {"_bias", ".bias"}})
    if (name.ends_with(ending))
      return {std::string(name.substr(0, name.size() - ending.size())), there};
  return {std::string(name), ".weight"};
}

class Naming {
 public:
  explicit Naming(const DecoderConfig& model)
      : model_(model), prefix_(decoder_prefix(model)), of_layers_(layer_names(model)) {}

  Name of(const Parameter& parameter) const {
    std::string_view name = parameter.name;
    if (name.starts_with(prefix_)) name.remove_prefix(prefix_.size());
    std::string block;
    const Names* names = &outer_names();
    if (name.starts_with(kLayers)) {
      const size_t dot = name.find('.', kLayers.size());
      block = "blk." + std::string(name.substr(kLayers.size(), dot - kLayers.size())) + ".";
      name.remove_prefix(dot + 1);
      names = &of_layers_;
    }
    auto [module, ending] = without_ending(name);
    if (!block.empty()) module = published_module(model_.family->layer, module);
    const auto found = names->find(module);
    if (found == names->end())
      throw InternalError(parameter.name + ": llama.cpp has no name for it");
    const bool is_whole = found->second.find('.') != std::string::npos;
    return {found->second, block + found->second + (is_whole ? "" : ending)};
  }

 private:
  const DecoderConfig& model_;
  std::string prefix_;
  Names of_layers_;
};

int64_t first_in_tensor(const Parameter& parameter) {
  return parameter.weight.saved_section ? parameter.weight.saved_section->first : 0;
}

std::vector<int64_t> sizes_of(const Parameter& parameter) {
  return parameter.numbers().shape.sizes();
}

// Whether the family's RoPE turns other numbers of a head against each other than llama.cpp's.
bool turns_otherwise(const DecoderConfig& model) {
  return gguf_family(model).rope_pairs == models::RopePairs::adjacent &&
         model.family->layer.rope_pairs == models::RopePairs::halves;
}

// All but the shape and the other parts.
GgufTensor tensor_of(const DecoderConfig& model, const Name& name, const Parameter& parameter) {
  const models::LayerTraits& layer = model.family->layer;
  GgufTensor tensor{.name = name.whole, .shape = sizes_of(parameter)};
  const bool is_norm =
      name.module.ends_with("norm") || name.module.find("_norm_") != std::string::npos;
  const bool is_weight = name.whole.ends_with(".weight");
  tensor.transposed = layer.experts.is_plain && name.module.ends_with("_exps") && is_weight;
  if (turns_otherwise(model) && (name.module == kQuery || name.module == kKey))
    tensor.turned_head = model.head_dim;
  if (is_norm) tensor.offset = static_cast<float>(layer.norm_offset);
  const bool norms_queries = layer.qk_norm == models::QkNorm::of_each_head ||
                             layer.qk_norm == models::QkNorm::of_all_heads;
  if (name.module == (norms_queries ? kQueryNorm : kQuery))
    tensor.factor = static_cast<float>(gguf_query_factor(model));
  tensor.is_float32 = tensor.shape.size() <= 1 || is_norm || name.module == kRouter || !is_weight;
  return tensor;
}

void finish(GgufTensor& tensor) {
  std::ranges::sort(tensor.parts, {}, [](const Parameter* part) { return first_in_tensor(*part); });
  if (tensor.parts.size() > 1) {
    tensor.shape[0] = 0;
    for (const Parameter* part : tensor.parts) tensor.shape[0] += sizes_of(*part)[0];
  }
  if (tensor.transposed) std::swap(tensor.shape.end()[-1], tensor.shape.end()[-2]);
}

}  // namespace

std::vector<float> transposed(std::span<const float> matrices, int64_t rows, int64_t columns) {
  std::vector<float> result(matrices.size());
  for (int64_t first = 0; first < std::ssize(matrices); first += rows * columns)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column)
        result[static_cast<size_t>(first + column * rows + row)] =
            matrices[static_cast<size_t>(first + row * columns + column)];
  return result;
}

std::vector<float> turned(std::span<const float> rows, int64_t head, int64_t columns) {
  std::vector<float> result(rows.size());
  auto to = result.begin();
  for (int64_t first = 0; first < std::ssize(rows); first += head * columns)
    for (int64_t row = 0; row < head; ++row) {
      const int64_t from = first + (row / 2 + row % 2 * (head / 2)) * columns;
      to = std::ranges::copy(rows.subspan(static_cast<size_t>(from), static_cast<size_t>(columns)),
                             to)
               .out;
    }
  return result;
}

void GgufTensor::for_each_piece(const Read& read, const Take& take) const {
  if (parts.empty()) return take(values);
  for (const Parameter* part : parts) {
    const std::vector<int64_t> sizes = sizes_of(*part);
    const int64_t count = part->numbers().shape.count();
    const int64_t columns = turned_head > 0 ? count / sizes[0] : sizes.back();
    int64_t piece = kWeightPieceElements;
    if (transposed) piece = columns * sizes.end()[-2];
    if (turned_head > 0) piece = round_up(piece, turned_head * columns);
    longshore::for_each_piece(count, piece, [&](int64_t first, int64_t some) {
      std::vector<float> numbers = read(*part, first, some);
      if (transposed) numbers = trainer::transposed(numbers, sizes.end()[-2], columns);
      if (turned_head > 0) numbers = turned(numbers, turned_head, columns);
      for (float& number : numbers) number = (number + offset) * factor;
      take(numbers);
    });
  }
}

std::vector<GgufTensor> gguf_tensors(const DecoderConfig& model,
                                     const offload::ParameterLayout& layout) {
  const Naming naming(model);
  std::vector<GgufTensor> tensors;
  std::map<std::string, size_t> by_name;
  for (const offload::Bucket& bucket : layout.buckets)
    for (const Parameter& parameter : bucket.parameters) {
      if (models::is_lora_weight(parameter.name) || models::is_trained_tokens(parameter.name))
        continue;
      const Name name = naming.of(parameter);
      const auto [known, is_new] = by_name.try_emplace(name.whole, tensors.size());
      if (is_new) tensors.push_back(tensor_of(model, name, parameter));
      tensors[known->second].parts.push_back(&parameter);
    }
  for (GgufTensor& tensor : tensors) finish(tensor);
  if (std::vector<float> factors = gguf_rope_factors(model); !factors.empty())
    tensors.push_back({.name = "rope_freqs.weight",
                       .shape = {std::ssize(factors)},
                       .values = std::move(factors),
                       .is_float32 = true});
  return tensors;
}

}  // namespace longshore::trainer
