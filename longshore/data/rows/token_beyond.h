// Finds a token that a model does not know.
#pragma once

#include <cstdint>
#include <optional>

#include "longshore/data/rows/token_file.h"

namespace longshore::data {

struct TokenBeyond {
  int64_t number;  // among the file's tokens
  int32_t id;
};

// The first of a file's tokens that is not below `vocab_size`, nothing where all are. Reads all of
// them, and throws what TokenFile::read() does.
std::optional<TokenBeyond> token_beyond(const TokenFile& file, int64_t vocab_size);

}  // namespace longshore::data
