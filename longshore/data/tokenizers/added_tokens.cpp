#include "longshore/data/tokenizers/added_tokens.h"

#include <algorithm>
#include <utility>

#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/unicode_sets.h"
#include "longshore/data/tokenizers/white_space.h"

namespace longshore::data {
namespace {

bool begins_with_word(std::string_view text) {
  return !text.empty() && contains(word_characters(), first_character(text).code_point);
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && begins_with_word(text.substr(last_character_at(text)));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  token_at_.push_back(kNoToken);
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].content.empty()) continue;
    uint32_t node = 0;
    for (char byte : tokens_[i].content) {
      const uint64_t edge = uint64_t{node} << 8 | static_cast<uint8_t>(byte);
      const auto [found, is_new] = edges_.emplace(edge, static_cast<uint32_t>(token_at_.size()));
      if (is_new) token_at_.push_back(kNoToken);
      node = found->second;
    }
    if (token_at_[node] == kNoToken) token_at_[node] = static_cast<int32_t>(i);
    begins_[static_cast<uint8_t>(tokens_[i].content.front())] = true;
  }
}

int32_t AddedTokens::match(std::string_view text) const {
  int32_t longest = kNoToken;
  uint32_t node = 0;
  for (char byte : text) {
    const auto edge = edges_.find(uint64_t{node} << 8 | static_cast<uint8_t>(byte));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (token_at_[node] != kNoToken) longest = token_at_[node];
  }
  return longest;
}

void AddedTokens::split(std::string_view text, std::vector<TextPart>& parts) const {
  size_t begin = 0;      // of what is not yet in a part
  size_t space_end = 0;  // of the white space that was taken last
  for (size_t at = 0; at < text.size();) {
    const int32_t found =
        begins_[static_cast<uint8_t>(text[at])] ? match(text.substr(at)) : kNoToken;
    if (found == kNoToken) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(found)];
    size_t token_begin = at, token_end = at + token.content.size();
    at = token_end;
    if (token.single_word &&
        (ends_with_word(text.substr(0, token_begin)) || begins_with_word(text.substr(token_end))))
      continue;
    // White space that a token before took is still looked through for tokens; what those would
    // take is taken once.
    if (token.lstrip && token_begin > begin)
      token_begin -= white_space_at_end(text.substr(begin, token_begin - begin));
    if (token.lstrip) token_begin = std::max(token_begin, begin);
    if (token.rstrip && token_end >= space_end)
      space_end = token_end + white_space_at_head(text.substr(token_end));
    token_end = std::max(token_begin, token.rstrip ? space_end : token_end);
    if (begin < token_begin) parts.push_back({text.substr(begin, token_begin - begin)});
    if (token_begin < token_end)
      parts.push_back({text.substr(token_begin, token_end - token_begin), token.id, token.special});
    begin = token_end;
  }
  if (begin < text.size()) parts.push_back({text.substr(begin)});
}

}  // namespace longshore::data
