// What a GGUF file says of a model beside its tensors.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/gguf/gguf.h"
#include "longshore/models/families/decoder_config.h"
#include "longshore/models/families/gguf_family.h"
#include "longshore/trainer/weights/source_model.h"

namespace longshore::trainer {

// How llama.cpp knows the model's family. Throws a DataError, which names the families that it
// knows, for another.
const models::GgufFamily& gguf_family(const models::DecoderConfig& model);

// Throws a DataError that lists what llama.cpp's code of the family cannot do, or does otherwise
// whatever the file says: it would run another model.
void require_gguf_model(const models::DecoderConfig& model);

// A number of a JSON file, as GGUF files hold it. Throws a DataError, which begins with `key`, for
// one that float32 cannot hold in full.
float gguf_number(std::string_view key, double number);

// Entries that begin with the architecture's name: sizes, RoPE, windows, soft-caps, multipliers and
// experts. Throws what gguf_number throws, with config.json's keys.
std::vector<data::GgufEntry> gguf_hyperparameters(const models::DecoderConfig& model);

// Tokens that a text may have. Where the code of the family knows no windows, a window: texts
// within it are seen whole either way.
int64_t gguf_context_length(const models::DecoderConfig& model);

// By what queries are multiplied, so that llama.cpp, which scales scores by a rule of its own, has
// the model's; 1 where it is the same. Throws a DataError where float32 cannot hold it.
double gguf_query_factor(const models::DecoderConfig& model);

// What each frequency of RoPE is divided by, for the tensor rope_freqs.weight; empty where the
// model needs none. Throws what gguf_number throws.
std::vector<float> gguf_rope_factors(const models::DecoderConfig& model);

struct GgufText {
  std::vector<data::GgufEntry> entries;  // "tokenizer.*"
  std::string left_out;  // what is to be said of tokens that the file does not have; "" for none
};

// What data::gguf_vocabulary gives, the ids of the tokens that begin and end texts, by the
// tokenizer or else by config.json and generation_config.json, and the chat template. Without a
// tokenizer the file says so, and is for token ids alone. Throws a DataError, which names the file,
// where gguf_vocabulary does, for a sentencepiece model of another kind than BPE or characters, and
// for such an id beyond the vocabulary.
GgufText gguf_text(const SourceModel& source);

}  // namespace longshore::trainer
