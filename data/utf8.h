#pragma once

#include <cstddef>
#include <string_view>

namespace longshore::data {

// Length of the longest prefix that is valid UTF-8: text.size() when all of it is. Overlong forms,
// surrogates and what lies beyond U+10FFFF are not valid.
size_t valid_utf8_prefix(std::string_view text);

}  // namespace longshore::data
