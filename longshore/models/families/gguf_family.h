// A GgufFamily says how llama.cpp (https://github.com/ggml-org/llama.cpp) knows a family: by which
// name, and what its code of that name takes for granted or cannot do. All of them are a table in
// longshore/models/families/gguf_family.cpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "longshore/models/families/family.h"
#include "longshore/models/ops/rope/rope_options.h"

namespace longshore::models {

// Which layers have a window there.
enum class GgufWindows : uint8_t {
  none,     // the code knows none: what is within one is as far as texts may go
  some,     // those that a list says, if there is a window at all
  always,   // those that a list says; there has to be a window
  chunked,  // those that a list says, which is a chunk of kGgufChunk tokens
};
inline constexpr int64_t kGgufChunk = 8192;

// Where logits come from.
enum class GgufHead : uint8_t {
  either,     // the head, or the embedding where the file has none
  embedding,  // always the embedding
  own,        // always the head
};

struct GgufFamily {
  std::string_view architecture;  // the name, with which keys begin
  RopePairs rope_pairs = RopePairs::halves;
  GgufHead head = GgufHead::either;
  GgufWindows windows = GgufWindows::none;
  std::string_view norm_before_mlp = "ffn_norm";  // its tensor
  // Biases that it reads beside those of query, key and value.
  bool output_bias = false, mlp_bias = false;
  // Whether there have to be biases on all four of attention.
  bool needs_attention_bias = false;
  bool needs_caps = false;          // soft-caps of scores and logits
  bool reads_rope_factors = false;  // a tensor with a factor for each frequency, as Llama 3.1 needs
  bool reads_yarn_betas = false;    // else those that most models have: 32 and 1
  // Each so many'th layer turns neither query nor key; 0: all do.
  int64_t nope_layer_interval = 0;
  // Models of so many layers scale scores by the width of a head that the model's width makes, all
  // others by head_dim. 0: no model does.
  int64_t layers_scaled_by_width = 0;
  // What it calls BPE over characters.
  std::string_view character_bpe = "llama";
};

// nullptr where llama.cpp does not know the family.
const GgufFamily* find_gguf_family(const Family& family);

}  // namespace longshore::models
