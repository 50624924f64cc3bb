// Makes a tokenizer.json of byte-level BPE of tokens that are ranked.
#pragma once

#include <string>
#include <vector>

#include "longshore/data/tokenizers/byte_level_json.h"

namespace longshore::data {

struct RankedTokens {
  std::vector<std::string> tokens;  // bytes, by rank; each byte is among them, none twice
  std::vector<SpecialToken> special;
  bool special_first = false;  // their ids are the first, or else the last
  std::string split;           // the expression by which text is cut
  std::string bos;             // the special token that texts begin with; "" for none
};

// As transformers does: two tokens that are side by side become one that consists of both, the one
// of the least rank first, and what is a token as a whole is not cut. Throws a DataError where
// there are too many such pairs, tokens are too long, or a byte has no token.
std::string tokenizer_json_of_ranked(RankedTokens ranked);

}  // namespace longshore::data
