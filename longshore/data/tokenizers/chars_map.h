// The normaliser's rules of a sentencepiece model, which a tokenizer.json has as Precompiled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::data {

// Throws a DataError unless the rules can be followed safely, by sentencepiece too; "" are none.
void check_chars_map(std::string_view bytes);

// Immutable: any number of threads may use it at a time.
class CharsMap {
 public:
  // Throws as check_chars_map() does, and where a replacement is not UTF-8.
  explicit CharsMap(std::string_view bytes);

  // `text`, valid UTF-8, as Hugging Face's tokenizers applies the rules: to a whole grapheme of
  // less than six bytes if a rule matches its beginning, or else to each character. sentencepiece
  // itself takes the longest match at each place. Nothing where that has more than `most_bytes`.
  std::optional<std::string> applied_to(std::string_view text, size_t most_bytes) const;

 private:
  // What the shortest rule that the chunk begins with makes of it.
  std::optional<std::string_view> replacement_of(std::string_view chunk) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends with a zero byte
};

}  // namespace longshore::data
