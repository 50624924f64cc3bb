#include "longshore/data/text/encode_choices.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "longshore/base/error.h"
#include "longshore/base/text.h"
#include "longshore/data/text/encode_example.h"
#include "longshore/data/tokenizers/white_space.h"

namespace longshore::data {
namespace {

int64_t characters_in(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace

std::vector<EncodedChoice> encode_choices(const ChoiceRecord& record, int32_t opening,
                                          const Tokenizer& tokenizer, int64_t length) {
  const std::string_view prompt = record.prompt;
  const std::string context(prompt.substr(0, prompt.size() - white_space_at_end(prompt)));
  const std::vector<int32_t> before = prompt_tokens(context, opening, tokenizer);
  std::vector<EncodedChoice> encoded;
  for (size_t i = 0; i < record.choices.size(); ++i) {
    const std::string& choice = record.choices[i];
    const std::vector<int32_t> whole = prompt_tokens(record.prompt + choice, opening, tokenizer);
    const auto scored = std::ssize(whole) - std::ssize(before);
    const std::string place = "choices[" + std::to_string(i) + "]";
    if (scored < 1)
      throw DataError(place + ": found no token behind those of the prompt, expected some");
    if (scored > length)
      throw DataError(place + ": found " + plural(scored, "token") + ", expected at most " +
                      std::to_string(length) + ", those of a row");
    EncodedChoice one{.sequence = {.tokens = before, .context = std::ssize(before)}};
    std::vector<int32_t>& tokens = one.sequence.tokens;
    tokens.insert(tokens.end(), whole.begin() + std::ssize(before), whole.end());
    if (const auto excess = std::ssize(tokens) - (length + 1); excess > 0) {
      one.is_cut = true;
      tokens.erase(tokens.begin(), tokens.begin() + excess);
      one.sequence.context -= excess;
    }
    const std::string_view text = std::string_view(choice).substr(white_space_at_head(choice));
    one.characters = characters_in(text);
    one.bytes = std::ssize(text);
    encoded.push_back(std::move(one));
  }
  return encoded;
}

}  // namespace longshore::data
