// with_added_tokens() adds tokens to a tokenizer.json.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace longshore::data {

// The text of a tokenizer.json with `tokens` behind its added_tokens, numbered from `first_id` on;
// all else stays, to the byte. They are found in text before any other, as they are spelled, and
// are not special: decoding writes them. `json` is known to be a tokenizer.json. Throws a DataError
// where its added_tokens are no list.
std::string with_added_tokens(std::string_view json, std::span<const std::string> tokens,
                              int32_t first_id);

}  // namespace longshore::data
