#include "longshore/data/tokenizers/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <queue>
#include <set>
#include <utility>

#include "longshore/base/utf8.h"

namespace longshore::data {
namespace {

// Up to so many symbols, looking at all pairs for the best is faster than a heap of them.
constexpr size_t kFewSymbols = 48;

// A workspace that a long piece has made larger is not kept.
constexpr size_t kMaxIdleSymbols = size_t{1} << 18;

constexpr uint64_t kHashFactor = 0x9e3779b97f4a7c15;

uint64_t pair_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// The ids of short segments met before. A new one takes the place of an older one in its slot.
class SegmentCache {
 public:
  struct alignas(64) Entry {
    std::array<uint64_t, 4> key{};  // the segment, zeros, its length in the last byte
    std::array<int32_t, 7> ids{};
    int32_t id_count = 0;
  };

  static constexpr size_t kMaxBytes = 31;

  // The entry that holds the segment, or will: whose id_count is 0 then. The segment has 1 to
  // kMaxBytes bytes.
  Entry& entry(std::string_view segment) {
    std::array<uint64_t, 4> key{};
    std::memcpy(key.data(), segment.data(), segment.size());
    key[3] |= uint64_t{segment.size()} << 56;
    uint64_t hash = 0;
    for (uint64_t word : key) hash = (std::rotl(hash, 29) ^ word) * kHashFactor;
    Entry& found = entries_[hash >> (64 - kIndexBits)];
    if (found.key != key) {
      found.key = key;
      found.id_count = 0;
    }
    return found;
  }

 private:
  static_assert(std::endian::native == std::endian::little);
  static constexpr int kIndexBits = 16;
  std::vector<Entry> entries_ = std::vector<Entry>(size_t{1} << kIndexBits);
};

}  // namespace

struct Bpe::Workspace {
  SegmentCache cache;
  std::vector<int32_t> symbols;
  std::vector<uint64_t> pairs;  // by position: what merges_ says of a symbol and its next
};

Bpe::PairTable::PairTable(size_t pairs)
    : shift_(64 - static_cast<int>(std::bit_width(2 * pairs + 1))),
      slots_(size_t{1} << (64 - shift_), Slot{kNone, kNone}) {}

Bpe::PairTable::Slot& Bpe::PairTable::slot(uint64_t pair) {
  size_t at = (pair ^ pair >> 29) * kHashFactor >> shift_;
  while (slots_[at].pair != pair && slots_[at].pair != kNone) at = (at + 1) & (slots_.size() - 1);
  return slots_[at];
}

void Bpe::PairTable::insert(int32_t left, int32_t right, uint64_t value) {
  slot(pair_of(left, right)) = {pair_of(left, right), value};
}

uint64_t Bpe::PairTable::find(int32_t left, int32_t right) const {
  return const_cast<PairTable*>(this)->slot(pair_of(left, right)).value;
}

Bpe::CharacterTable::CharacterTable() : page_of_(0x1100, 0), pages_(1) { pages_[0].fill(-1); }

void Bpe::CharacterTable::insert(char32_t character, int32_t id) {
  uint16_t& page = page_of_[character >> 8];
  if (page == 0) {
    page = static_cast<uint16_t>(pages_.size());
    pages_.emplace_back().fill(-1);
  }
  pages_[page][character & 0xff] = id;
}

int32_t Bpe::CharacterTable::find(char32_t character) const {
  return pages_[page_of_[character >> 8]][character & 0xff];
}

Bpe::Bpe(const BpeModel& model)
    : alphabet_(model.alphabet),
      byte_tokens_(model.byte_tokens),
      unknown_token_(model.unknown_token),
      fuse_unknown_(model.fuse_unknown),
      fallback_tokens_(model.fallback_tokens),
      falls_back_always_(std::ranges::none_of(fallback_tokens_,
                                              [](const auto& tokens) { return tokens.empty(); })),
      merges_(model.merges.size()),
      joints_(0) {
  uint64_t rank = 0;
  for (const BpeMerge& each : model.merges)
    merges_.insert(each.left, each.right, rank++ << 32 | static_cast<uint32_t>(each.result));
  if (alphabet_ == BpeModel::Alphabet::characters) learn_characters(model);
  if (!model.ignore_merges) return;
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    whole_pieces_.emplace(model.tokens[id], static_cast<int32_t>(id));
    longest_whole_piece_ = std::max(longest_whole_piece_, model.tokens[id].size());
  }
}

Bpe::~Bpe() = default;

void Bpe::learn_characters(const BpeModel& model) {
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    const std::string& token = model.tokens[id];
    if (token.empty()) continue;
    const Character character = first_character(token);
    if (character.bytes == token.size())
      characters_.insert(character.code_point, static_cast<int32_t>(id));
  }
  auto first = [&](const std::string& token) {
    return characters_.find(first_character(token).code_point);
  };
  auto last = [&](std::string_view token) {
    return characters_.find(first_character(token.substr(last_character_at(token))).code_point);
  };
  std::set<std::pair<int32_t, int32_t>> joints;
  std::vector<bool> is_byte_token(model.tokens.size());
  for (const std::vector<int32_t>& ids : fallback_tokens_)
    for (int32_t id : ids) is_byte_token[static_cast<size_t>(id)] = true;
  for (const BpeMerge& each : model.merges) {
    const auto left = static_cast<size_t>(each.left), right = static_cast<size_t>(each.right);
    const int32_t last_id = last(model.tokens[left]), first_id = first(model.tokens[right]);
    // A character that is no token is never a symbol, nor is what ends or begins with it.
    if (last_id >= 0 && first_id >= 0) joints.emplace(last_id, first_id);
    byte_tokens_merge_ = byte_tokens_merge_ || is_byte_token[left] || is_byte_token[right];
  }
  joints_ = PairTable(joints.size());
  for (const auto& [left, right] : joints) joints_.insert(left, right, 0);
}

std::unique_ptr<Bpe::Workspace> Bpe::take_workspace() const {
  const std::lock_guard lock(mutex_);
  if (idle_workspaces_.empty()) return std::make_unique<Workspace>();
  auto workspace = std::move(idle_workspaces_.back());
  idle_workspaces_.pop_back();
  return workspace;
}

void Bpe::encode(std::span<const std::string_view> pieces, std::vector<int32_t>& ids) const {
  std::unique_ptr<Workspace> workspace = take_workspace();
  for (std::string_view piece : pieces) encode_piece(piece, *workspace, ids);
  if (workspace->symbols.capacity() > kMaxIdleSymbols) return;
  const std::lock_guard lock(mutex_);
  idle_workspaces_.push_back(std::move(workspace));
}

void Bpe::encode_piece(std::string_view piece, Workspace& workspace,
                       std::vector<int32_t>& ids) const {
  if (piece.empty()) return;
  if (piece.size() <= longest_whole_piece_) {
    if (const auto found = whole_pieces_.find(std::string(piece)); found != whole_pieces_.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  if (alphabet_ == BpeModel::Alphabet::bytes) {
    encode_segment(piece, workspace, ids);
    return;
  }
  // No merge reaches across two characters that none joins, so what lies between such places can
  // be encoded by itself; these segments are often words, which the cache knows. What is unknown
  // waits for the next character that is not: there can be none between two that have tokens.
  size_t begin = 0;
  Character character = first_character(piece);
  int32_t left = characters_.find(character.code_point);
  for (size_t at = character.bytes; at < piece.size(); at += character.bytes) {
    character = first_character(piece.substr(at));
    const int32_t right = characters_.find(character.code_point);
    const bool joined = left < 0 || right < 0 ? byte_tokens_merge_ || !falls_back_always_
                                              : joints_.find(left, right) != kNone;
    if (!joined) {
      encode_segment(piece.substr(begin, at - begin), workspace, ids);
      begin = at;
    }
    left = right;
  }
  encode_segment(piece.substr(begin), workspace, ids);
}

void Bpe::encode_segment(std::string_view segment, Workspace& workspace,
                         std::vector<int32_t>& ids) const {
  SegmentCache::Entry* entry = nullptr;
  if (segment.size() <= SegmentCache::kMaxBytes) {
    entry = &workspace.cache.entry(segment);
    if (entry->id_count > 0) {
      ids.insert(ids.end(), entry->ids.begin(), entry->ids.begin() + entry->id_count);
      return;
    }
  }
  std::vector<int32_t>& symbols = workspace.symbols;
  symbols.clear();
  append_symbols(segment, symbols);
  merge(workspace);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
  if (entry && symbols.size() <= entry->ids.size()) {
    std::copy(symbols.begin(), symbols.end(), entry->ids.begin());
    entry->id_count = static_cast<int32_t>(symbols.size());
  }
}

// Appends what each byte falls back to; nothing, and false, where one has no such tokens.
bool Bpe::append_fallback(std::string_view bytes, std::vector<int32_t>& symbols) const {
  auto tokens = [&](char byte) -> const std::vector<int32_t>& {
    return fallback_tokens_[static_cast<uint8_t>(byte)];
  };
  if (std::ranges::any_of(bytes, [&](char byte) { return tokens(byte).empty(); })) return false;
  for (const char byte : bytes)
    symbols.insert(symbols.end(), tokens(byte).begin(), tokens(byte).end());
  return true;
}

// As in Hugging Face's tokenizers, an unknown symbol comes before the next one that is known, and
// so behind all between them that fall back to bytes.
void Bpe::append_symbols(std::string_view segment, std::vector<int32_t>& symbols) const {
  bool is_waiting = false;  // an unknown one
  auto append_waiting = [&] {
    if (is_waiting) symbols.push_back(unknown_token_);
    is_waiting = false;
  };
  auto append = [&](int32_t id, std::string_view bytes) {
    if (id >= 0) {
      append_waiting();
      symbols.push_back(id);
    } else if (!append_fallback(bytes, symbols) && unknown_token_ >= 0) {
      if (!fuse_unknown_) append_waiting();
      is_waiting = true;
    }
  };
  if (alphabet_ == BpeModel::Alphabet::bytes) {
    for (size_t i = 0; i < segment.size(); ++i)
      append(byte_tokens_[static_cast<uint8_t>(segment[i])], segment.substr(i, 1));
  } else {
    while (!segment.empty()) {
      const Character character = first_character(segment);
      append(characters_.find(character.code_point), segment.substr(0, character.bytes));
      segment.remove_prefix(character.bytes);
    }
  }
  append_waiting();
}

void Bpe::merge(Workspace& workspace) const {
  const std::vector<int32_t>& symbols = workspace.symbols;
  std::vector<uint64_t>& pairs = workspace.pairs;
  pairs.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    pairs.push_back(merges_.find(symbols[i], symbols[i + 1]));
  if (symbols.size() <= kFewSymbols)
    merge_few(workspace);
  else
    merge_many(workspace);
}

void Bpe::merge_few(Workspace& workspace) const {
  std::vector<int32_t>& symbols = workspace.symbols;
  std::vector<uint64_t>& pairs = workspace.pairs;
  while (!pairs.empty()) {
    const auto best = std::min_element(pairs.begin(), pairs.end());  // the first of equals
    if (*best == kNone) return;
    const auto at = static_cast<size_t>(best - pairs.begin());
    symbols[at] = static_cast<int32_t>(*best & UINT32_MAX);
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
    pairs.erase(best);
    if (at > 0) pairs[at - 1] = merges_.find(symbols[at - 1], symbols[at]);
    if (at < pairs.size()) pairs[at] = merges_.find(symbols[at], symbols[at + 1]);
  }
}

void Bpe::merge_many(Workspace& workspace) const {
  std::vector<int32_t>& symbols = workspace.symbols;
  std::vector<uint64_t>& pairs = workspace.pairs;
  const size_t count = symbols.size();
  pairs.push_back(kNone);  // the last has no next

  std::vector<int32_t> previous(count), next(count);
  for (size_t i = 0; i < count; ++i) {
    previous[i] = static_cast<int32_t>(i) - 1;
    next[i] = static_cast<int32_t>(i) + 1;
  }

  // The rank above, the position below: of equal ranks the first position is the best.
  auto entry = [](uint64_t pair, size_t at) { return pair >> 32 << 32 | at; };
  std::vector<uint64_t> entries;
  for (size_t i = 0; i < count; ++i)
    if (pairs[i] != kNone) entries.push_back(entry(pairs[i], i));
  std::priority_queue heap(std::greater<uint64_t>{}, std::move(entries));
  auto look_again = [&](size_t at) {
    const auto right = static_cast<size_t>(next[at]);
    pairs[at] = right < count ? merges_.find(symbols[at], symbols[right]) : kNone;
    if (pairs[at] != kNone) heap.push(entry(pairs[at], at));
  };
  while (!heap.empty()) {
    const uint64_t best = heap.top();
    heap.pop();
    const size_t at = best & UINT32_MAX;
    if (pairs[at] == kNone || pairs[at] >> 32 != best >> 32) continue;  // no longer this pair
    const auto right = static_cast<size_t>(next[at]);
    symbols[at] = static_cast<int32_t>(pairs[at] & UINT32_MAX);
    pairs[right] = kNone;
    next[at] = next[right];
    if (static_cast<size_t>(next[at]) < count)
      previous[static_cast<size_t>(next[at])] = static_cast<int32_t>(at);
    look_again(at);
    if (previous[at] >= 0) look_again(static_cast<size_t>(previous[at]));
  }
  size_t kept = 0;
  for (size_t i = 0; i < count; i = static_cast<size_t>(next[i])) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

}  // namespace longshore::data
