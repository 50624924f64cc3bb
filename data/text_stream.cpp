#include "data/text_stream.h"

#include <algorithm>

#include "data/utf8.h"

namespace longshore::data {

namespace {

bool begins_character(char byte) { return (byte & 0xc0) != 0x80; }

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, begins_character));
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const int32_t> before)
    : tokenizer_(tokenizer),
      window_(before.begin(), before.end()),
      text_(tokenizer.decode(window_)),
      given_(characters(text_)) {
  shorten();
}

// What of `text`, the window's or its beginning, is not given out yet.
std::string TextStream::give_out(std::string_view text) {
  size_t begin = 0, before = 0;
  while (begin < text.size() && (before += begins_character(text[begin])) <= given_) ++begin;
  given_ = std::max(given_, characters(text));
  return std::string(text.substr(begin));
}

// Once all is given out, a few tokens are enough: those that have some text, without which the next
// token would be the first and could lose its space, and none that begins within a character.
void TextStream::shorten() {
  constexpr size_t kKept = 8, kMost = 16;
  if (window_.size() <= kMost || given_ != characters(text_)) return;
  std::vector<int32_t> kept(window_.end() - kKept, window_.end());
  std::string text = tokenizer_.decode(kept);
  if (text.empty() || !text_.ends_with(text)) return;
  window_ = std::move(kept);
  text_ = std::move(text);
  given_ = characters(text_);
}

std::string TextStream::add(int32_t token) {
  window_.push_back(token);
  text_ = tokenizer_.decode(window_);
  std::string_view whole = text_;
  while (whole.ends_with(kReplacementCharacter)) whole.remove_suffix(kReplacementCharacter.size());
  std::string text = give_out(whole);
  shorten();
  return text;
}

std::string TextStream::finish() { return give_out(text_); }

}  // namespace longshore::data
