// Files of tiktoken: byte-level BPE whose tokens have ranks in place of merges. They become a
// tokenizer.json, as transformers makes one of them, so that all that reads those reads these.
#pragma once

#include <string>
#include <string_view>

namespace longshore::data {

// Whether each line is a token in base64 and its rank, by the first line.
bool is_tiktoken(std::string_view bytes);

// The tokenizer.json of a tiktoken file. How text is split, and which special tokens there are,
// such a file does not say: it is known of the files of Llama 3 (to 3.3), Llama 4 and Qwen, which
// are recognised by their number of tokens and their last one. Throws a DataError, without the
// file's name, on others, and on what is damaged.
std::string tokenizer_json_of_tiktoken(std::string_view bytes);

}  // namespace longshore::data
