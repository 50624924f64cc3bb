#include "data/tokenizers/white_space.h"

#include "base/utf8.h"

namespace longshore::data {
namespace {

// White_Space of Unicode.
bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

}  // namespace

size_t white_space_at_head(std::string_view text) { return bytes_at_head(text, is_space); }

size_t white_space_at_end(std::string_view text) { return bytes_at_end(text, is_space); }

}  // namespace longshore::data
