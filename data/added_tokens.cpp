#include "data/added_tokens.h"

#include <utility>

#include "data/white_space.h"

namespace longshore::data {
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
    token_at_[node] = static_cast<int32_t>(i);
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
  size_t begin = 0;  // of what is not yet in a part
  for (size_t at = 0; at < text.size();) {
    if (!begins_[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const int32_t found = match(text.substr(at));
    if (found == kNoToken) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(found)];
    size_t token_begin = at;
    size_t token_end = at + token.content.size();
    if (token.lstrip) token_begin -= white_space_at_end(text.substr(begin, at - begin));
    if (token.rstrip) token_end += white_space_at_head(text.substr(token_end));
    if (begin < token_begin) parts.push_back({text.substr(begin, token_begin - begin)});
    parts.push_back({text.substr(token_begin, token_end - token_begin), token.id});
    begin = at = token_end;
  }
  if (begin < text.size()) parts.push_back({text.substr(begin)});
}

}  // namespace longshore::data
