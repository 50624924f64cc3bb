// fault_in_sentencepiece_file() checks a model file before sentencepiece loads it. sentencepiece
// trusts its model files: with a damaged one it may read outside its tables, or work for hours.
#pragma once

#include <string>
#include <string_view>

namespace longshore::data {

// What is wrong with the bytes of a model file, or "" when sentencepiece can load and use them
// safely. Whether they make sense is still for sentencepiece to say.
std::string fault_in_sentencepiece_file(std::string_view bytes);

}  // namespace longshore::data
