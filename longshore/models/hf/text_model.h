// The text model within a published model that also reads images: Gemma 3 of 4B and more
// (model_type gemma3, Gemma Team 2025, arXiv 2503.19786), Gemma 4 (gemma4, gemma4_unified), Llama 4
// (llama4) and Mistral Small 3 and Ministral 3 (mistral3), whose text models see text as they would
// by themselves, and PaliGemma (paligemma), whose text model is a Gemma or Gemma 2.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::models {

// Those model_types.
const std::vector<std::string>& whole_model_types();

// The config.json of the text model in the model that the config.json `text` describes, with what
// published files leave to transformers' defaults (vocab_size, head_dim and others) written out;
// token ids, dtype and tie_word_embeddings of the whole model count. Where that is a text model,
// `text` itself. Throws a DataError that names the key, as parse_hf_config does.
std::string text_model_config(std::string_view text);

// The text model's name for a tensor of such a folder: for "language_model.model.norm.weight", as
// published, "model.language_model.norm.weight", as transformers calls it from 4.52 on, and
// "language_model.norm.weight", as AutoModel writes it, it is "model.norm.weight"; a text model's
// own names stay. Nothing for the weights that read images.
std::optional<std::string> text_model_name(std::string_view tensor);

}  // namespace longshore::models
