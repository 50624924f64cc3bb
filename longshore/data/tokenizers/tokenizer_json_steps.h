// The steps of a tokenizer.json that work on text: normaliser, pre-tokenizer and decoder. Each is
// an object with a type, or a Sequence of them. What is not supported is a DataError that gives its
// place.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "longshore/data/files/json_place.h"
#include "longshore/data/tokenizers/normalizer.h"
#include "longshore/data/tokenizers/pre_tokenizer.h"
#include "longshore/data/tokenizers/token_decoder.h"

namespace longshore::data {

std::string type_of(const JsonPlace& place);

// What a step of type Sequence holds under `key`, or the step itself.
std::vector<JsonPlace> steps_of(const JsonPlace& place, const char* key);

std::vector<NormalizerStep> normalizer_of(const JsonPlace& place);

struct PreTokenizerSteps {
  std::vector<PreTokenizerStep> steps;
  std::vector<Split> byte_splits;  // behind ByteLevel
  bool byte_level = false;
};

// `normalizer`: what the text has gone through.
PreTokenizerSteps pre_tokenizer_of(const JsonPlace& place,
                                   const std::vector<NormalizerStep>& normalizer);

// `byte_level`: as the pre-tokenizer is, so the decoder has to be.
TokenDecoder decoder_of(const JsonPlace& place, bool byte_level);

}  // namespace longshore::data
