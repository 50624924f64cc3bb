// The normaliser of a tokenizer.json: what is done to a text before it is split.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "longshore/data/tokenizers/chars_map.h"
#include "longshore/data/tokenizers/split_pattern.h"
#include "longshore/data/tokenizers/unicode_forms.h"

namespace longshore::data {

struct Lowercase {};     // each character by itself
struct StripAccents {};  // takes marks away, as NFD and NFKD set them apart
struct Strip {
  bool left = true, right = true;  // where white space is taken away
};
struct Prepend {
  std::string text;  // before what is not empty
};
struct Replace {
  // A text that is not empty, or an expression. Shared: patterns cannot be copied.
  std::variant<std::string, std::shared_ptr<const SplitPattern>> from;
  std::string to;
};
struct Precompiled {
  std::shared_ptr<const CharsMap> rules;
};
using NormalizerStep =
    std::variant<UnicodeForm, Lowercase, StripAccents, Strip, Prepend, Replace, Precompiled>;

struct NormalText {
  std::string text;
  // Whether it begins with what the text began with, in whatever form: no step took that away.
  bool keeps_start = true;
};

// The text, valid UTF-8, after all steps in their order. Throws DataError, which names the step,
// where one makes more than `most_bytes` of it, and as SplitPattern does.
NormalText normalized(std::span<const NormalizerStep> steps, std::string_view text,
                      size_t most_bytes);

// The text with every `from`, which is not empty, replaced, from left to right; nothing where that
// has more than `most_bytes`.
std::optional<std::string> replaced(std::string_view text, std::string_view from,
                                    std::string_view to, size_t most_bytes);

}  // namespace longshore::data
