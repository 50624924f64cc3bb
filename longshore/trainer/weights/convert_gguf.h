// Converts a model, or an adapter by itself, into a GGUF file, which llama.cpp runs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "longshore/data/gguf/gguf.h"
#include "longshore/trainer/weights/source_model.h"

namespace longshore::trainer {

struct GgufConversion {
  ModelSource source;  // with an adapter: merged into the weights
  std::filesystem::path to;
  bool adapter_only = false;  // the adapter alone, for llama.cpp to put beside the model
  // None: each tensor keeps its own, an adapter's are float32.
  std::optional<data::GgufType> type = {};
};

// Writes `to` anew, and says what it wrote. Vectors, norms and routers are float32; rows that are
// no multiple of 32 are float16 where others are Q8_0. Of the model only the text model is written.
// Values are those that convert() writes, rounded once; what llama.cpp computes otherwise is made
// up for in the weights: the order of rows of queries and keys, the 1 that norms add, and a scale
// of scores that it has no key for. The same model and type give the same bytes. Memory: see
// GgufTensor; of an adapter A and B of one weight; and the tokenizer.
//
// Throws what SourceModel, require_gguf_model, gguf_hyperparameters, gguf_text and
// data::GgufNumbers throw, with the file or folder before it; a ConfigError where `to` is a file of
// the model, and where there is no adapter to be written alone; and a DataError for what an adapter
// file cannot hold: DoRA's magnitudes, and embeddings, heads and rows of tokens that train beside
// it.
std::string convert_to_gguf(const GgufConversion& conversion);

}  // namespace longshore::trainer
