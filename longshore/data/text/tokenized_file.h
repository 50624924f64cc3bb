// open_tokenized() gives the token file of a text file, so that training reads text directly.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "longshore/data/rows/token_file.h"
#include "longshore/data/text/tokenize_files.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {

// The token file of a text file (is_text()). It is made in the folder `cache` unless it is there:
// token files are read where they lie, so memory does not grow with the text, and documents can be
// asked for in any order. Its name holds a hash of the text, the tokenizer and the options, so a
// changed text is tokenized again and an equal one is not; for a model that reads images also the
// way to its folder, from where on lines name images. It is made again where an image is gone or
// has another size. Of several processes that want it at a time, one makes it. Throws as
// tokenize_files() does, FileError where the folder cannot be made, and DataError, with what to
// remove, for a damaged one in it.
std::shared_ptr<const TokenFile> open_tokenized(const std::filesystem::path& text,
                                                const Tokenizer& tokenizer,
                                                const TokenizeOptions& options,
                                                const std::filesystem::path& cache);

// What tells apart what becomes of texts, without reading all of them: a hash of the text's size
// and of parts of it (sampled_hash()), and of all that decides about its tokens, but for
// skip_bad_lines, which changes nothing of a text that can be read.
std::string text_identity(const std::filesystem::path& text, const Tokenizer& tokenizer,
                          TokenizeOptions options, const std::filesystem::path& cache);

// Removes a file that open_tokenized() made, unless it is gone. Who has it open reads on.
void remove_tokenized(const std::filesystem::path& tokens);

}  // namespace longshore::data
