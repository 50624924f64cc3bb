#include "longshore/data/tokenizers/text_stream.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "longshore/base/utf8.h"

namespace longshore::data {

namespace {

bool is_first_byte(char byte) { return (byte & 0xc0) != 0x80; }

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, is_first_byte));
}

// Whether more bytes would make a character of it.
bool begins_character(std::string_view part) {
  for (char next : {'\x80', '\x90', '\xa0'}) {  // some of which may follow any that has a second
    std::string whole(part);
    whole += next;
    whole.resize(4, '\x80');
    if (character_length(whole) > part.size()) return true;
  }
  return false;
}

std::string replaced(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) text += kReplacementCharacter;
  return text;
}

// Tokens whose text is that of the others, as far as it matters to what follows.
std::vector<int32_t> without_bytes(const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::vector<int32_t> others;
  std::ranges::copy_if(tokens, std::back_inserter(others),
                       [&](int32_t token) { return !tokenizer.byte_of(token); });
  return others;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const int32_t> before)
    : tokenizer_(tokenizer),
      window_(without_bytes(tokenizer, before)),
      text_(tokenizer.decode(window_)),
      given_(characters(text_)) {
  shorten();
}

// What of `text`, the window's or its beginning, is not given out yet.
std::string TextStream::give_out(std::string_view text) {
  size_t begin = 0, before = 0;
  while (begin < text.size() && (before += is_first_byte(text[begin])) <= given_) ++begin;
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
  const std::optional<uint8_t> byte = tokenizer_.byte_of(token);
  return byte ? add_byte(*byte) : add_text(token);
}

// The bytes have nothing to do with the window, but that text which follows them is not the first.
std::string TextStream::add_byte(uint8_t byte) {
  std::string text = give_out(text_);
  if (text_.empty()) {
    window_ = tokenizer_.encode("a");
    text_ = tokenizer_.decode(window_);
    given_ = characters(text_);
  }
  bytes_ += static_cast<char>(byte);
  while (!bytes_.empty() && !begins_character(bytes_)) {
    const size_t length = character_length(bytes_);
    text += length > 0 ? bytes_.substr(0, length) : std::string(kReplacementCharacter);
    bytes_.erase(0, std::max(length, size_t{1}));
  }
  return text;
}

std::string TextStream::add_text(int32_t token) {
  window_.push_back(token);
  text_ = tokenizer_.decode(window_);
  std::string_view whole = text_;
  while (whole.ends_with(kReplacementCharacter)) whole.remove_suffix(kReplacementCharacter.size());
  std::string text = give_out(whole);
  if (!text.empty()) text = replaced(std::exchange(bytes_, "")) + text;
  shorten();
  return text;
}

std::string TextStream::finish() { return replaced(std::exchange(bytes_, "")) + give_out(text_); }

}  // namespace longshore::data
