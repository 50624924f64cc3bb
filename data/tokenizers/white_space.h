// Counts the white space at the ends of a text.
#pragma once

#include <cstddef>
#include <string_view>

namespace longshore::data {

// How many bytes at the head, or at the end, of valid UTF-8 are white space by Unicode's property.
size_t white_space_at_head(std::string_view text);
size_t white_space_at_end(std::string_view text);

}  // namespace longshore::data
