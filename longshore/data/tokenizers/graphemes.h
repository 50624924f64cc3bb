// Divides text into grapheme clusters, what a reader takes for one character.
#pragma once

#include <cstddef>
#include <string_view>

namespace longshore::data {

// Length in bytes of the extended grapheme cluster (Unicode's annex 29) with which `text` begins,
// which is not empty and valid UTF-8. Pairs of regional indicators, of eight bytes, are left as
// two.
size_t grapheme_length(std::string_view text);

}  // namespace longshore::data
