// fault_in_sentencepiece_file() checks a model file before sentencepiece loads it. sentencepiece
// trusts its model files: with a damaged one it may read outside its tables, or work for hours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/tokenizers/added_tokens.h"

namespace longshore::data {

// What is wrong with the bytes of a model file, or "" when sentencepiece can load and use them
// safely. Whether they make sense is still for sentencepiece to say.
std::string fault_in_sentencepiece_file(std::string_view bytes);

// Of a file without a fault: its control tokens, which sentencepiece never finds in a text, and its
// user-defined symbols but those of white space. Templates write them.
std::vector<AddedToken> special_pieces(std::string_view bytes);

}  // namespace longshore::data
