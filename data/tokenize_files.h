// Text files in, one token shard out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "data/tokenizer.h"

namespace longshore::data {

struct TokenizeOptions {
  std::string chat_template;    // a name that ChatTemplate knows; empty: messages are errors
  bool skip_bad_lines = false;  // of a .jsonl file: leave them out, and count them
};

struct TokenizeSummary {
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t skipped_lines = 0;
};

// Writes the documents of the files in order. Those of a .jsonl file are its lines, as encode()
// writes an Example; blank lines are none, and all have the form of the first. Any other file is
// plain text: its documents (see DocumentReader) are followed by the tokenizer's eos; no bos. Where
// such a text is to start afresh, the model has therefore seen eos before it.
//
// The shard has loss marks where there is something that carries none: prompts. Uses all cores; the
// result does not depend on their number. Throws a DataError, and leaves no output, when an input
// is bad (with file and line), no document is found or the tokenizer has no eos; a ConfigError on
// an unknown template.
TokenizeSummary tokenize_files(const Tokenizer& tokenizer,
                               std::span<const std::filesystem::path> inputs,
                               const std::filesystem::path& output,
                               const TokenizeOptions& options = {});

}  // namespace longshore::data
