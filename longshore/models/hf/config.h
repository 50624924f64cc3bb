// Reads and writes Hugging Face's config.json, which says what decoder a published checkpoint is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/models/families/decoder_config.h"

namespace longshore::models {

enum class UnknownKeys : uint8_t { refuse, ignore };

// Whether a model that also reads images is read whole, or as its text model.
enum class Images : uint8_t {
  ignore,
  read,
  needed,  // whole where the text model is none by itself, as PaliGemma's is not
};

// The decoder that `text` describes (for a model that also reads images, its text model's unless
// these are read), in the older spelling of keys (rope_scaling, rope_theta, torch_dtype) or the
// newer one (rope_parameters, dtype, layer_types); batch and length stay as they are by default,
// dtype is that of the weights (float16 is read as float32). Throws DataError, naming the key, for
// what is missing, is not of its type, is beyond longshore/models/families/limits.h, or would
// change results and is not supported. Unknown keys are refused unless told otherwise, since nobody
// knows what they change.
//
// A key that transformers' code of that family does not read changes nothing here either, whatever
// its value; nor does null, which is as good as no key unless transformers tells them apart.
DecoderConfig parse_hf_config(std::string_view text, UnknownKeys unknown = UnknownKeys::refuse,
                              Images images = Images::ignore);

// The unknown keys of a text that parse_hf_config accepts with UnknownKeys::ignore.
std::vector<std::string> unknown_hf_keys(std::string_view text, Images images = Images::ignore);

// A config.json for a model that has none yet, which transformers loads as that model;
// parse_hf_config gives `config` back, with what stands for a default (query_scale 0, no list of
// windowed layers) written out, and a Llama with a window as the Mistral that it is. For a model
// that began as somebody's checkpoint, carry that checkpoint's text over instead (see
// with_hf_dtype): nothing of it that is not the decoder's (token ids, say) can be known here;
// max_position_embeddings is `config`'s length where it has none.
//
// Keys are in the newer spelling, which transformers has from 5 on. Where 4 would take a default in
// silence for what it does not find (rope_theta, rope_scaling, rope_local_base_freq,
// sliding_window_pattern), the older spelling is written as well; 5 and parse_hf_config accept
// both together. Not so for torch_dtype, without which 4 takes the dtype of the weights.
//
// Throws ConfigError for a decoder that no model_type describes, such as Llama with soft-caps.
std::string write_hf_config(const DecoderConfig& config);

// The config.json `text` with the weights' dtype, "float32", "bfloat16" or "float16", under the key
// that it has for it (torch_dtype or dtype; else dtype), also in its parts where they have one. All
// else stays, in its order, but for a quantization_config, which such weights have not. Throws
// DataError when it is no JSON object.
std::string with_hf_dtype(std::string_view text, std::string_view dtype);
// Without a quantization_config.
std::string without_hf_quantization(std::string_view text);

// The same with pad_token_id, which is null where there is none; also of the text model.
std::string with_hf_pad_token(std::string_view text, std::optional<int64_t> pad_token);

// The same with vocab_size, also of the text model and of what its layers read besides.
std::string with_hf_vocabulary(std::string_view text, int64_t vocabulary);

// What `config` has of RoPE and no config.json of its family can say, in the words of the keys.
std::vector<std::string> beyond_rope_keys(const DecoderConfig& config);

// The config.json `text` with RoPE's keys, in both spellings, and max_position_embeddings as
// `config` has them; also of the text model.
std::string with_hf_rope(std::string_view text, const DecoderConfig& config);

// The config.json `text`, which parse_hf_config reads, with those keys added that it lacks and a
// release of transformers would take a default for in silence: those of RoPE and windows in the
// other of the two spellings (see write_hf_config), and the number of experts. A text that lacks
// none stays, to the byte; else all else stays, in its order.
std::string with_both_spellings(std::string_view text);

}  // namespace longshore::models
