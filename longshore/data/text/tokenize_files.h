// tokenize_files() makes one token file of text files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "longshore/data/text/text_input.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {

struct TokenizeSummary {
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t images = 0;
  int64_t skipped_lines = 0;
};

// Writes the documents of the files (see TextInput) in order, with loss mask where one has them; of
// preferences, as pairs, and of rollouts with numbers beside their tokens.
// Uses all cores; the result does not depend on their number. Throws a DataError, and leaves no
// output, when an input is bad (with file and line), no document is found or the tokenizer has no
// eos; a ConfigError on an unknown template and where the output is a file that is read; an Error,
// with no output either, soon after a StopSignal or `options.stop` is there.
TokenizeSummary tokenize_files(const Tokenizer& tokenizer,
                               std::span<const std::filesystem::path> inputs,
                               const std::filesystem::path& output,
                               const TokenizeOptions& options = {});

}  // namespace longshore::data
