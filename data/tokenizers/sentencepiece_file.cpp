#include "data/tokenizers/sentencepiece_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/tokenizers/protobuf_fields.h"
#include "data/tokenizers/white_space.h"

namespace longshore::data {
namespace {

// Far above what real models have; they bound time and memory.
constexpr size_t kMaxPieces = size_t{1} << 22;
constexpr size_t kMaxPieceBytes = 1024;
constexpr size_t kMaxCharsMapBytes = size_t{4} << 20;
constexpr size_t kMaxReplacementBytes = 100;
constexpr size_t kMaxSelfTestBytes = size_t{1} << 20;

// Sizes of arrays inside sentencepiece that it fills with matches without looking.
constexpr int kMaxNestedRules = 32;
constexpr size_t kMaxNestedUserSymbols = 64;

// Field numbers and values of sentencepiece_model.proto.
constexpr uint64_t kPieces = 1, kNormalizer = 3, kSelfTest = 4, kDenormalizer = 5;
constexpr uint64_t kPieceText = 1, kPieceType = 3, kControl = 3, kUserDefined = 4;
constexpr uint64_t kCharsMap = 2;

// The normaliser's rules: a double-array trie over the text to replace, whose values are offsets
// into a block of replacement strings. A unit of the trie has a label in its low 8 bits (and the
// top bit, set in value units), "a value follows" in bit 8, and an offset to XOR its own place
// with. sentencepiece follows these offsets unchecked.
class RuleTrie {
 public:
  explicit RuleTrie(std::string_view bytes) : units_(bytes.size() / 4) {
    std::memcpy(units_.data(), bytes.data(), units_.size() * 4);
  }

  // Throws unless every place that any text can lead to lies inside, and none leads to more than
  // kMaxNestedRules matches. Subtrees are shared, so each is judged once.
  void check() const {
    std::vector<int> matches_below(units_.size(), kUnknown);
    struct Visit {
      size_t place;
      int next_label;
      int most_matches;
    };
    std::vector<Visit> path;
    // There are whole blocks of 256 units: where a place is inside, so are all its labels' units.
    auto inside = [&](size_t place) {
      if (place >= units_.size()) throw DataError("normaliser trie leads outside");
      return place;
    };
    auto enter = [&](size_t place) {
      matches_below[place] = kOnPath;
      path.push_back({place, 0, 0});
    };
    enter(inside(offset(units_[0])));
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.next_label == 256) {
        if (visit.most_matches > kMaxNestedRules)
          throw DataError("normaliser trie nests too many rules");
        matches_below[visit.place] = visit.most_matches;
        path.pop_back();
        continue;
      }
      const size_t at = visit.place ^ static_cast<size_t>(visit.next_label);
      const uint32_t unit = units_[at];
      const bool is_child = (unit & 0x800000ff) == static_cast<uint32_t>(visit.next_label);
      if (!is_child) {
        ++visit.next_label;
        continue;
      }
      const size_t child = inside(at ^ offset(unit));
      if (matches_below[child] == kOnPath) throw DataError("normaliser trie has a cycle");
      if (matches_below[child] == kUnknown) {
        enter(child);  // and look at this label again when the child is known
        continue;
      }
      const int matches = matches_below[child] + static_cast<int>(unit >> 8 & 1);
      visit.most_matches = std::max(visit.most_matches, matches);
      ++visit.next_label;
    }
  }

 private:
  static constexpr int kUnknown = -1;
  static constexpr int kOnPath = -2;

  static size_t offset(uint32_t unit) { return size_t{unit >> 10} << ((unit & (1u << 9)) >> 6); }

  std::vector<uint32_t> units_;
};

void check_chars_map(std::string_view bytes) {
  if (bytes.empty()) return;
  if (bytes.size() > kMaxCharsMapBytes) throw DataError("normaliser rules larger than 4 MiB");
  uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof trie_bytes) throw DataError("normaliser rules cut off");
  std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  bytes.remove_prefix(sizeof trie_bytes);
  if (trie_bytes < 1024 || trie_bytes % 1024 != 0 || trie_bytes >= bytes.size())
    throw DataError("normaliser trie of " + std::to_string(trie_bytes) + " bytes within " +
                    std::to_string(bytes.size()));
  RuleTrie(bytes.substr(0, trie_bytes)).check();

  std::string_view replacements = bytes.substr(trie_bytes);
  while (!replacements.empty()) {
    const size_t length = replacements.find('\0');
    if (length == std::string_view::npos) throw DataError("normaliser replacement without an end");
    if (length > kMaxReplacementBytes) throw DataError("normaliser replacement too long");
    replacements.remove_prefix(length + 1);
  }
}

void check_normalizer(std::string_view message) {
  ProtobufFields fields(message);
  for (ProtobufField field; fields.next(field);)
    if (field.number == kCharsMap) check_chars_map(field.bytes);
}

// How many of `symbols` can begin at one place of a text, at most.
size_t most_nested(std::vector<std::string_view> symbols) {
  std::sort(symbols.begin(), symbols.end());
  std::vector<std::string_view> nested;
  size_t most = 0;
  for (std::string_view symbol : symbols) {
    while (!nested.empty() && !symbol.starts_with(nested.back())) nested.pop_back();
    nested.push_back(symbol);
    most = std::max(most, nested.size());
  }
  return most;
}

struct Piece {
  std::string_view text;
  uint64_t type = 0;
};

Piece piece_of(std::string_view message) {
  Piece piece;
  ProtobufFields fields(message);
  for (ProtobufField field; fields.next(field);) {
    if (field.number == kPieceText) piece.text = field.bytes;
    if (field.number == kPieceType) piece.type = field.value;
  }
  return piece;
}

void check_model(std::string_view bytes) {
  size_t piece_count = 0;
  size_t self_test_bytes = 0;
  std::vector<std::string_view> user_symbols;
  ProtobufFields fields(bytes);
  for (ProtobufField field; fields.next(field);) {
    switch (field.number) {
      case kPieces: {
        if (++piece_count > kMaxPieces) throw DataError("too many pieces");
        const Piece piece = piece_of(field.bytes);
        if (piece.text.size() > kMaxPieceBytes)
          throw DataError("piece of " + std::to_string(piece.text.size()) + " bytes");
        if (piece.type == kUserDefined) user_symbols.push_back(piece.text);
        break;
      }
      case kNormalizer:
      case kDenormalizer:
        check_normalizer(field.bytes);
        break;
      case kSelfTest:
        self_test_bytes += field.bytes.size();
        break;
    }
  }
  if (piece_count == 0) throw DataError("no pieces");
  if (self_test_bytes > kMaxSelfTestBytes) throw DataError("self-test larger than 1 MiB");
  if (most_nested(std::move(user_symbols)) > kMaxNestedUserSymbols)
    throw DataError("too many user-defined symbols that begin one another");
}

}  // namespace

std::string fault_in_sentencepiece_file(std::string_view bytes) {
  try {
    check_model(bytes);
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

std::vector<AddedToken> special_pieces(std::string_view bytes) {
  constexpr std::string_view kSpace = "\u2581";  // as the pieces have it
  std::vector<AddedToken> special;
  int32_t id = 0;
  ProtobufFields fields(bytes);
  for (ProtobufField field; fields.next(field);) {
    if (field.number != kPieces) continue;
    const Piece piece = piece_of(field.bytes);
    const bool is_of_space = piece.text.find(kSpace) != piece.text.npos ||
                             white_space_at_head(piece.text) == piece.text.size();
    if (piece.type == kControl || (piece.type == kUserDefined && !is_of_space))
      special.push_back({.content = std::string(piece.text), .id = id, .special = true});
    ++id;
  }
  return special;
}

}  // namespace longshore::data
