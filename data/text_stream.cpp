#include "data/text_stream.h"

#include <algorithm>

#include "data/utf8.h"

namespace longshore::data {

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const int32_t> before)
    : tokenizer_(tokenizer),
      window_(before.begin(), before.end()),
      text_(tokenizer.decode(window_)),
      given_(text_.size()) {
  shorten();
}

std::string TextStream::give_out(size_t bytes) {
  if (bytes <= given_) return "";
  std::string text = text_.substr(given_, bytes - given_);
  given_ = bytes;
  return text;
}

// Once all is given out, a few tokens are enough: those that have some text, without which the next
// token would be the first and could lose its space, and none that begins within a character.
void TextStream::shorten() {
  constexpr size_t kKept = 8, kMost = 16;
  if (window_.size() <= kMost || given_ != text_.size()) return;
  std::vector<int32_t> kept(window_.end() - kKept, window_.end());
  std::string text = tokenizer_.decode(kept);
  if (text.empty() || !text_.ends_with(text)) return;
  window_ = std::move(kept);
  text_ = std::move(text);
  given_ = text_.size();
}

std::string TextStream::add(int32_t token) {
  window_.push_back(token);
  text_ = tokenizer_.decode(window_);
  std::string_view whole = text_;
  while (whole.ends_with(kReplacementCharacter)) whole.remove_suffix(kReplacementCharacter.size());
  std::string text = give_out(whole.size());
  shorten();
  return text;
}

std::string TextStream::finish() { return give_out(text_.size()); }

}  // namespace longshore::data
