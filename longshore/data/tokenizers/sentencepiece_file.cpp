#include "longshore/data/tokenizers/sentencepiece_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/tokenizers/chars_map.h"
#include "longshore/data/tokenizers/protobuf_fields.h"
#include "longshore/data/tokenizers/white_space.h"

namespace longshore::data {
namespace {

// Far above what real models have; they bound time and memory.
constexpr size_t kMaxPieces = size_t{1} << 22;
constexpr size_t kMaxPieceBytes = 1024;
constexpr size_t kMaxSelfTestBytes = size_t{1} << 20;

// The size of an array inside sentencepiece that it fills with matches without looking.
constexpr size_t kMaxNestedUserSymbols = 64;

// Field numbers and values of sentencepiece_model.proto.
constexpr uint64_t kPieces = 1, kNormalizer = 3, kSelfTest = 4, kDenormalizer = 5;
constexpr uint64_t kPieceText = 1, kPieceType = 3, kControl = 3, kUserDefined = 4;
constexpr uint64_t kCharsMap = 2;

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
    const bool is_of_space =
        piece.text.find(kSpace) != piece.text.npos || is_white_space(piece.text);
    if (piece.type == kControl || (piece.type == kUserDefined && !is_of_space))
      special.push_back({.content = std::string(piece.text), .id = id, .special = true});
    ++id;
  }
  return special;
}

}  // namespace longshore::data
