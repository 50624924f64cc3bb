#include "longshore/models/families/gguf_family.h"

#include <algorithm>
#include <iterator>

namespace longshore::models {
namespace {

struct Row {
  const Family* family;
  GgufFamily gguf;
};

constexpr RopePairs kAdjacent = RopePairs::adjacent;

// What is said here of its code is in src/models of its sources.
constexpr Row kTable[] = {
    {&kLlama,
     {.architecture = "llama",
      .rope_pairs = kAdjacent,
      .output_bias = true,
      .mlp_bias = true,
      .reads_rope_factors = true}},
    {&kMistral, {.architecture = "llama", .rope_pairs = kAdjacent, .reads_rope_factors = true}},
    {&kMixtral, {.architecture = "llama", .rope_pairs = kAdjacent, .reads_rope_factors = true}},
    {&kMinistral3,
     {.architecture = "mistral3",
      .rope_pairs = kAdjacent,
      .reads_rope_factors = true,
      .reads_yarn_betas = true}},
    {&kQwen2, {.architecture = "qwen2"}},
    {&kQwen3, {.architecture = "qwen3"}},
    {&kQwen3Moe, {.architecture = "qwen3moe"}},
    {&kGemma, {.architecture = "gemma", .head = GgufHead::embedding}},
    {&kGemma2,
     {.architecture = "gemma2",
      .head = GgufHead::embedding,
      .windows = GgufWindows::always,
      .needs_caps = true,
      .layers_scaled_by_width = 46}},
    {&kGemma3Text,
     {.architecture = "gemma3", .windows = GgufWindows::some, .layers_scaled_by_width = 62}},
    {&kGemma4Text,
     {.architecture = "gemma4", .windows = GgufWindows::always, .character_bpe = "gemma4"}},
    {&kOlmo2, {.architecture = "olmo2", .windows = GgufWindows::some}},
    {&kOlmo3, {.architecture = "olmo2", .windows = GgufWindows::some}},
    {&kPhi3, {.architecture = "phi3"}},
    {&kGlm4, {.architecture = "glm4", .rope_pairs = kAdjacent}},
    {&kGranite,
     {.architecture = "granite",
      .rope_pairs = kAdjacent,
      .output_bias = true,
      .mlp_bias = true,
      .reads_rope_factors = true}},
    {&kSmolLm3, {.architecture = "smollm3", .rope_pairs = kAdjacent, .nope_layer_interval = 4}},
    {&kGptOss,
     {.architecture = "gpt-oss",
      .head = GgufHead::own,
      .windows = GgufWindows::always,
      .norm_before_mlp = "post_attention_norm",
      .output_bias = true,
      .needs_attention_bias = true}},
    {&kLlama4Text,
     {.architecture = "llama4",
      .rope_pairs = kAdjacent,
      .windows = GgufWindows::chunked,
      .reads_rope_factors = true,
      .nope_layer_interval = 4}},
};

}  // namespace

const GgufFamily* find_gguf_family(const Family& family) {
  const auto* row = std::ranges::find(kTable, &family, &Row::family);
  return row == std::end(kTable) ? nullptr : &row->gguf;
}

}  // namespace longshore::models
