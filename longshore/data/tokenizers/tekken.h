// A tekken.json, Mistral's own format: byte-level BPE by ranks, as tiktoken has it, with special
// tokens before.
#pragma once

#include <string>
#include <string_view>

namespace longshore::data {

// Whether JSON is a tekken.json.
bool is_tekken(std::string_view bytes);

// The tokenizer.json of a tekken.json, as transformers makes one of it. What such a file says of
// images and sound is left out. Throws a DataError that gives the place within the file, without
// the file's name.
std::string tokenizer_json_of_tekken(std::string_view bytes);

}  // namespace longshore::data
