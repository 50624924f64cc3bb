#include "longshore/data/tokenizers/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/byte_level.h"
#include "longshore/data/tokenizers/normalizer.h"

namespace longshore::data {
namespace {

// The text with marks for spaces, and with one before it where it is to have one.
std::string marked(std::string_view text, const Metaspace& metaspace, bool is_at_start,
                   size_t most_bytes) {
  const std::string& mark = metaspace.replacement;
  std::optional<std::string> result = replaced(text, " ", mark, most_bytes);
  if (!result)
    throw DataError("pre_tokenizer: Metaspace: found more than " + std::to_string(most_bytes) +
                    " bytes, made of a text of " + std::to_string(text.size()) +
                    "; expected no more");
  const bool wants_mark = metaspace.prepend == Metaspace::Prepend::always ||
                          (metaspace.prepend == Metaspace::Prepend::first && is_at_start);
  if (wants_mark && !result->starts_with(mark)) result->insert(0, mark);
  return *std::move(result);
}

// A mark belongs to what is behind it, unless that is a mark.
void append_marked_pieces(std::string_view text, const std::string& mark,
                          std::vector<std::string_view>& pieces) {
  std::vector<SplitPart> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t found = std::min(text.find(mark, at), text.size());
    if (at < found) parts.push_back({text.substr(at, found - at)});
    if (found < text.size()) parts.push_back({text.substr(found, mark.size()), true});
    at = found + mark.size();
  }
  append_pieces(parts, SplitBehavior::merged_with_next, pieces);
}

}  // namespace

PreTokenizer::Splitter::Splitter(const Split& split)
    : behavior_(split.behavior), invert_(split.invert) {
  if (const auto* pattern = std::get_if<std::string>(&split.pattern))
    pattern_.emplace(*pattern);
  else
    set_ = std::get<std::span<const CharacterRange>>(split.pattern);
}

void PreTokenizer::Splitter::split(std::string_view text,
                                   std::vector<std::string_view>& pieces) const {
  std::vector<SplitPart> parts;
  if (pattern_)
    pattern_->split(text, parts);
  else
    split_by_set(text, parts);
  if (invert_)
    for (SplitPart& part : parts) part.matches = !part.matches;
  append_pieces(parts, behavior_, pieces);
}

void PreTokenizer::Splitter::split_by_set(std::string_view text,
                                          std::vector<SplitPart>& parts) const {
  size_t begin = 0;  // of what is not yet in a part
  for (size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
    if (contains(set_, character.code_point)) {
      if (begin < at) parts.push_back({text.substr(begin, at - begin)});
      parts.push_back({text.substr(at, character.bytes), true});
      begin = at + character.bytes;
    }
    at += character.bytes;
  }
  if (begin < text.size()) parts.push_back({text.substr(begin)});
}

PreTokenizer::PreTokenizer(std::span<const PreTokenizerStep> steps,
                           std::span<const Split> byte_splits) {
  for (const PreTokenizerStep& step : steps) {
    if (const auto* split = std::get_if<Split>(&step))
      steps_.emplace_back(Splitter(*split));
    else if (const auto* metaspace = std::get_if<Metaspace>(&step))
      steps_.emplace_back(*metaspace);
    else
      steps_.emplace_back(PrefixSpace{});
  }
  for (const Split& split : byte_splits) byte_splitters_.emplace_back(split);
}

std::vector<std::string_view> PreTokenizer::pieces(std::string_view text, bool is_first,
                                                   size_t most_bytes,
                                                   std::deque<std::string>& changed) const {
  std::vector<std::string_view> pieces{text}, next;
  // Where the piece begins with which the whole text does, in whatever form.
  const char* start = is_first ? text.data() : nullptr;
  auto change = [&](std::string_view piece, std::string to) -> std::string_view {
    changed.push_back(std::move(to));
    if (piece.data() == start) start = changed.back().data();
    return changed.back();
  };
  for (const Step& step : steps_) {
    next.clear();
    for (std::string_view piece : pieces) {
      if (const auto* splitter = std::get_if<Splitter>(&step)) {
        splitter->split(piece, next);
      } else if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
        const std::string_view spaced =
            change(piece, marked(piece, *metaspace, piece.data() == start, most_bytes));
        if (metaspace->split)
          append_marked_pieces(spaced, metaspace->replacement, next);
        else
          next.push_back(spaced);
      } else {
        next.push_back(piece.starts_with(' ') ? piece : change(piece, " " + std::string(piece)));
      }
    }
    std::swap(pieces, next);
  }
  if (byte_splitters_.empty()) return pieces;
  next.clear();
  for (std::string_view piece : pieces) split_bytes(piece, next);
  return next;
}

// Splits by what the piece is in the byte-level alphabet.
void PreTokenizer::split_bytes(std::string_view piece,
                               std::vector<std::string_view>& smaller) const {
  std::string spelled;
  std::vector<size_t> byte_at;  // of each byte of `spelled`, and of its end
  for (size_t i = 0; i < piece.size(); ++i) {
    spelled += byte_level_spelling(static_cast<uint8_t>(piece[i]));
    byte_at.resize(spelled.size(), i);
  }
  byte_at.push_back(piece.size());
  std::vector<std::string_view> pieces{spelled};
  for (const Splitter& splitter : byte_splitters_) {
    std::vector<std::string_view> parts;
    for (std::string_view each : pieces) splitter.split(each, parts);
    pieces = std::move(parts);
  }
  for (std::string_view each : pieces) {
    const auto at = static_cast<size_t>(each.data() - spelled.data());
    smaller.push_back(piece.substr(byte_at[at], byte_at[at + each.size()] - byte_at[at]));
  }
}

}  // namespace longshore::data
