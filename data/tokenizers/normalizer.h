// The normaliser of a tokenizer.json: what is done to a text before it is split.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace longshore::data {

// Unicode's composed form, of the characters of Unicode 9.
struct Nfc {};
struct Prepend {
  std::string text;  // before what is not empty
};
struct Replace {
  std::string from, to;  // from is not empty
};
using NormalizerStep = std::variant<Nfc, Prepend, Replace>;

// The text after all steps in their order. Throws DataError, which names the step, where one makes
// more than `most_bytes` of it.
std::string normalized(std::span<const NormalizerStep> steps, std::string_view text,
                       size_t most_bytes);

// The text with every `from` replaced, from left to right; nothing where that has more than
// `most_bytes`.
std::optional<std::string> replaced(std::string_view text, const Replace& replace,
                                    size_t most_bytes);

}  // namespace longshore::data
