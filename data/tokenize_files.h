// Text files in, one token shard out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "data/tokenizer.h"

namespace longshore::data {

struct TokenizeSummary {
  int64_t documents = 0;
  int64_t tokens = 0;
};

// Writes the documents of the files (see DocumentReader) in order, each followed by the tokenizer's
// eos; no bos. Where a text is to start afresh, the model has therefore seen eos before it.
//
// Uses all cores; the result does not depend on their number. Throws a DataError, and leaves no
// output, when an input is bad, no document is found or the tokenizer has no eos.
TokenizeSummary tokenize_files(const Tokenizer& tokenizer,
                               std::span<const std::filesystem::path> inputs,
                               const std::filesystem::path& output);

}  // namespace longshore::data
