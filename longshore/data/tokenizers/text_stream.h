// A TextStream turns tokens into text as they come.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {

// What is given out is whole characters, and joins to what decode() gives for all tokens at once,
// less the text of those that stand before. A character whose bytes are spread over several tokens
// is given out with the last of them. Of tokens for single bytes, those that belong to no character
// are a U+FFFD each, also where decode() of a tokenizer.json replaces all bytes around them.
class TextStream {
 public:
  // `before`: tokens whose text is not given out. The tokenizer must outlive this.
  TextStream(const Tokenizer& tokenizer, std::span<const int32_t> before);

  // The text that the token completes, often "". Throws as decode() does.
  std::string add(int32_t token);
  // What is left at the end: parts of a character, as U+FFFD.
  std::string finish();

 private:
  std::string add_byte(uint8_t byte);
  std::string add_text(int32_t token);
  std::string give_out(std::string_view text);
  void shorten();

  const Tokenizer& tokenizer_;
  // The last tokens but those for bytes, some of which are given out already: what a token is as
  // text may depend on those before it.
  std::vector<int32_t> window_;
  std::string text_;   // of the window
  size_t given_ = 0;   // characters of it
  std::string bytes_;  // of byte tokens behind the window: the beginning of a character
};

}  // namespace longshore::data
