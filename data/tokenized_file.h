// Text that training reads directly.
#pragma once

#include <filesystem>
#include <memory>

#include "data/token_shard.h"
#include "data/tokenize_files.h"
#include "data/tokenizer.h"

namespace longshore::data {

// The shard of a text file (is_text()). It is made in the folder `cache` unless it is there: a
// shard is read where it lies, so memory does not grow with the text, and documents can be asked
// for in any order. Its name holds a hash of the text, the tokenizer and the options, so a changed
// text is tokenized again and an equal one is not. Throws as tokenize_files() does, and a DataError
// where the folder cannot be made.
std::shared_ptr<const TokenShard> open_tokenized(const std::filesystem::path& text,
                                                 const Tokenizer& tokenizer,
                                                 const TokenizeOptions& options,
                                                 const std::filesystem::path& cache);

}  // namespace longshore::data
