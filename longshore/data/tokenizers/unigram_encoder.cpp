#include "longshore/data/tokenizers/unigram_encoder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"

namespace longshore::data {
namespace {

// By so much an unknown character is worse than the worst token.
constexpr double kUnknownPenalty = 10.0;

constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

}  // namespace

// The best way to a place in a piece.
struct UnigramEncoder::Best {
  double score = 0;
  size_t begin = kNowhere;  // of the last token
  int32_t token = -1;
};

UnigramEncoder::UnigramEncoder(const UnigramModel& model)
    : scores_(model.scores),
      unknown_token_(model.unknown_token),
      fallback_tokens_(model.fallback_tokens) {
  const double worst = scores_.empty() ? 0 : *std::min_element(scores_.begin(), scores_.end());
  unknown_score_ = worst - kUnknownPenalty;
  std::vector<int32_t> sorted;
  for (size_t id = 0; id < model.tokens.size(); ++id)
    if (!model.tokens[id].empty()) sorted.push_back(static_cast<int32_t>(id));
  std::ranges::sort(sorted, {}, [&](int32_t id) -> const std::string& {
    return model.tokens[static_cast<size_t>(id)];
  });
  grow(model, std::move(sorted));
}

// Breadth first, so that the children of a node lie beside each other.
void UnigramEncoder::grow(const UnigramModel& model, std::vector<int32_t> sorted) {
  struct Branch {
    size_t node, first, last, depth;  // the tokens that pass through the node
  };
  std::vector<Branch> level{{0, 0, sorted.size(), 0}}, next;
  nodes_.emplace_back();
  auto text = [&](size_t i) -> std::string_view {
    return model.tokens[static_cast<size_t>(sorted[i])];
  };
  while (!level.empty()) {
    next.clear();
    for (Branch branch : level) {
      if (branch.first < branch.last && text(branch.first).size() == branch.depth)
        nodes_[branch.node].token = sorted[branch.first++];
      nodes_[branch.node].first_child = static_cast<uint32_t>(nodes_.size());
      for (size_t first = branch.first; first < branch.last;) {
        const char byte = text(first)[branch.depth];
        size_t last = first;
        while (last < branch.last && text(last)[branch.depth] == byte) ++last;
        next.push_back({nodes_.size(), first, last, branch.depth + 1});
        nodes_.push_back({.byte = static_cast<uint8_t>(byte)});
        ++nodes_[branch.node].child_count;
        first = last;
      }
    }
    std::swap(level, next);
  }
}

const UnigramEncoder::Node* UnigramEncoder::child(const Node& node, char byte) const {
  const auto first = nodes_.begin() + node.first_child, last = first + node.child_count;
  const auto found =
      std::lower_bound(first, last, static_cast<uint8_t>(byte),
                       [](const Node& each, uint8_t wanted) { return each.byte < wanted; });
  return found != last && found->byte == static_cast<uint8_t>(byte) ? &*found : nullptr;
}

int32_t UnigramEncoder::find(std::string_view text) const {
  const Node* node = &nodes_[0];
  for (const char byte : text)
    if (!(node = child(*node, byte))) return -1;
  return node->token;
}

void UnigramEncoder::search(std::string_view piece, std::vector<Best>& best) const {
  best.assign(piece.size() + 1, {});
  auto offer = [&](size_t begin, size_t end, double score, int32_t token) {
    const double sum = score + best[begin].score;
    if (best[end].begin == kNowhere || sum > best[end].score) best[end] = {sum, begin, token};
  };
  for (size_t begin = 0; begin < piece.size();) {
    const size_t character = first_character(piece.substr(begin)).bytes;
    bool has_character = false;
    const Node* node = &nodes_[0];
    for (size_t end = begin; end < piece.size();) {
      if (!(node = child(*node, piece[end++]))) break;
      if (node->token < 0) continue;
      offer(begin, end, scores_[static_cast<size_t>(node->token)], node->token);
      has_character = has_character || end - begin == character;
    }
    if (!has_character) {
      if (unknown_token_ < 0)
        throw DataError("the tokenizer has no token for " +
                        in_quotes(piece.substr(begin, character)) + ", and none for the unknown");
      offer(begin, begin + character, unknown_score_, unknown_token_);
    }
    begin += character;
  }
}

void UnigramEncoder::append_unknown(std::string_view text, std::vector<int32_t>& ids) const {
  if (const int32_t whole = find(text); whole >= 0) {
    ids.push_back(whole);
    return;
  }
  const size_t count = ids.size();
  for (const char byte : text) {
    const int32_t id = fallback_tokens_[static_cast<uint8_t>(byte)];
    if (id < 0) {
      ids.resize(count);
      ids.push_back(unknown_token_);
      return;
    }
    ids.push_back(id);
  }
}

void UnigramEncoder::encode(std::span<const std::string_view> pieces,
                            std::vector<int32_t>& ids) const {
  std::vector<Best> best;
  std::vector<std::pair<size_t, size_t>> tokens;  // where the tokens of a piece begin and end
  for (std::string_view piece : pieces) {
    search(piece, best);
    tokens.clear();
    for (size_t end = piece.size(); end > 0; end = best[end].begin) {
      // The unknown beside each other are one.
      if (best[end].token == unknown_token_ && !tokens.empty() &&
          best[tokens.back().second].token == unknown_token_)
        tokens.back().first = best[end].begin;
      else
        tokens.emplace_back(best[end].begin, end);
    }
    for (size_t i = tokens.size(); i-- > 0;) {
      const auto [begin, end] = tokens[i];
      if (best[end].token == unknown_token_)
        append_unknown(piece.substr(begin, end - begin), ids);
      else
        ids.push_back(best[end].token);
    }
  }
}

}  // namespace longshore::data
