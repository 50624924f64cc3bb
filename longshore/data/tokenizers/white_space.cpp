#include "longshore/data/tokenizers/white_space.h"

#include "longshore/base/utf8.h"

namespace longshore::data {
namespace {

constexpr CharacterRange kWhiteSpace[] = {
    {0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};

bool is_space(char32_t c) { return contains(kWhiteSpace, c); }

}  // namespace

std::span<const CharacterRange> white_space() { return kWhiteSpace; }

size_t white_space_at_head(std::string_view text) { return bytes_at_head(text, is_space); }

size_t white_space_at_end(std::string_view text) { return bytes_at_end(text, is_space); }

}  // namespace longshore::data
