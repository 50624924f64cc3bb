// with_added_tokens() adds tokens to a tokenizer.json.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace longshore::data {

// A token and its id.
using NamedToken = std::pair<std::string, int32_t>;

// The text of a tokenizer.json with `tokens` behind its added_tokens; all else stays, to the byte.
// They are found in text before any other, as they are spelled, and are not special: decoding
// writes them. `json` is known to be a tokenizer.json. Throws a DataError where its added_tokens
// are no list.
std::string with_added_tokens(std::string_view json, std::span<const NamedToken> tokens);

}  // namespace longshore::data
