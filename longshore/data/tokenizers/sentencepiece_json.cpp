#include "longshore/data/tokenizers/sentencepiece_json.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "longshore/data/tokenizers/protobuf_fields.h"

namespace longshore::data {
namespace {

using nlohmann::json;

constexpr const char* kSpace = "\u2581";

// Field numbers and values of sentencepiece_model.proto.
enum class PieceType { normal = 1, unknown, control, user_defined, unused, byte };
enum class ModelType { unigram = 1, bpe, word, character };

struct Piece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;
};

struct SentencePiece {
  std::vector<Piece> pieces;
  ModelType type = ModelType::unigram;
  bool byte_fallback = false, treat_whitespace_as_suffix = false;
  std::string bos_piece = "<s>", rules;  // the name of the normaliser's rules
  std::string_view chars_map;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
};

Piece read_piece(std::string_view message) {
  Piece piece;
  ProtobufFields fields(message);
  for (ProtobufField field; fields.next(field);) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2 && field.bytes.size() == sizeof piece.score)
      std::memcpy(&piece.score, field.bytes.data(), sizeof piece.score);
    if (field.number == 3) piece.type = static_cast<PieceType>(field.value);
  }
  return piece;
}

void read_trainer(std::string_view message, SentencePiece& model) {
  ProtobufFields fields(message);
  for (ProtobufField field; fields.next(field);) {
    if (field.number == 3) model.type = static_cast<ModelType>(field.value);
    if (field.number == 24) model.treat_whitespace_as_suffix = field.value != 0;
    if (field.number == 35) model.byte_fallback = field.value != 0;
    if (field.number == 46) model.bos_piece = field.bytes;
  }
}

void read_normalizer(std::string_view message, SentencePiece& model) {
  ProtobufFields fields(message);
  for (ProtobufField field; fields.next(field);) {
    if (field.number == 1) model.rules = field.bytes;
    if (field.number == 2) model.chars_map = field.bytes;
    if (field.number == 3) model.add_dummy_prefix = field.value != 0;
    if (field.number == 4) model.remove_extra_whitespaces = field.value != 0;
    if (field.number == 5) model.escape_whitespaces = field.value != 0;
  }
}

SentencePiece read_model(std::string_view bytes) {
  SentencePiece model;
  ProtobufFields fields(bytes);
  for (ProtobufField field; fields.next(field);) {
    if (field.number == 1) model.pieces.push_back(read_piece(field.bytes));
    if (field.number == 2) read_trainer(field.bytes, model);
    if (field.number == 3) read_normalizer(field.bytes, model);
  }
  return model;
}

std::string base64(std::string_view bytes) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min(bytes.size() - i, size_t{3});
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < count ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

json replace(const char* kind, const std::string& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

// Whether the normaliser leaves the text as it is, which is how it is then found in a normalised
// text. sentencepiece finds user-defined symbols before; so it is where this is false, but then
// what follows one is normalised as a text of its own.
bool survives_normalizer(const std::string& text, const SentencePiece& model) {
  if (model.remove_extra_whitespaces && text.find(kSpace) != text.npos) return false;
  if (model.chars_map.empty()) return text.find(' ') == text.npos;
  std::string rest = text;
  for (size_t at; (at = rest.find(kSpace)) != rest.npos;) rest.erase(at, std::strlen(kSpace));
  return std::ranges::all_of(rest, [&](unsigned char c) {
    return c > ' ' && c <= '~' && !(model.rules.ends_with("_cf") && std::isupper(c));
  });
}

std::string escaped_for_regex(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    if (std::ispunct(static_cast<unsigned char>(c))) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::vector<const Piece*> symbols_in_normal_text(const SentencePiece& model,
                                                 std::span<const std::string> chat_tokens) {
  std::vector<const Piece*> symbols;
  if (model.type == ModelType::unigram) return symbols;  // finds them by their scores
  for (const Piece& piece : model.pieces)
    if (piece.type == PieceType::user_defined && survives_normalizer(piece.text, model) &&
        std::ranges::find(chat_tokens, piece.text) == chat_tokens.end())
      symbols.push_back(&piece);
  return symbols;
}

// The space before a text. The symbols that are found in the normalised text are normalised alone
// before, and may not get it: a text that is one of them has none either.
json prepend(const std::string& space, std::span<const Piece* const> symbols) {
  if (symbols.empty()) return {{"type", "Prepend"}, {"prepend", space}};
  std::string any;
  for (const Piece* symbol : symbols)
    any += (any.empty() ? "" : "|") + escaped_for_regex(symbol->text);
  return replace("Regex", "\\A(?!(?:" + any + ")\\z)(?=(?m:.))", space);
}

json normalizer(const SentencePiece& model, std::span<const Piece* const> symbols) {
  json steps = json::array();
  if (!model.chars_map.empty()) {
    // Precompiled takes CR and LF together for one character.
    if (model.rules.starts_with("nmt_")) steps.push_back(replace("String", "\r", " "));
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(model.chars_map)}});
  }
  const std::string space = model.escape_whitespaces ? kSpace : " ";
  if (model.escape_whitespaces) steps.push_back(replace("String", " ", space));
  if (model.remove_extra_whitespaces) {
    steps.push_back(replace("Regex", space + "{2,}", space));
    steps.push_back(replace("Regex", "\\A" + space + "+|" + space + "+\\z", ""));
  }
  if (model.add_dummy_prefix)
    steps.push_back(model.treat_whitespace_as_suffix ? replace("Regex", "(?<=(?m:.))\\z", space)
                                                     : prepend(space, symbols));
  if (steps.empty()) return nullptr;
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

std::string unknown_piece(const SentencePiece& model) {
  for (const Piece& piece : model.pieces)
    if (piece.type == PieceType::unknown) return piece.text;
  return "";
}

// Two pieces become one in the order of the scores that they have together, as sentencepiece has
// it. That of characters merges none.
json bpe(const SentencePiece& model) {
  std::unordered_map<std::string_view, size_t> ids;
  json vocab = json::object();
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    vocab[piece.text] = id;
    if (piece.type == PieceType::normal) ids.emplace(piece.text, id);
  }
  std::vector<std::tuple<float, size_t, size_t>> order;  // -score, id, bytes of the left one
  for (const auto& [text, id] : ids)
    for (size_t left = 1; left < text.size() && model.type == ModelType::bpe; ++left)
      if (ids.contains(text.substr(0, left)) && ids.contains(text.substr(left)))
        order.emplace_back(-model.pieces[id].score, id, left);
  std::ranges::sort(order);
  json merges = json::array();
  for (const auto& [score, id, left] : order) {
    const std::string& text = model.pieces[id].text;
    merges.push_back({text.substr(0, left), text.substr(left)});
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown_piece(model)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", model.byte_fallback},
          {"ignore_merges", false},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}};
}

// What keeps the name of a byte's piece, "<0x0A>", from being found in a text.
json pre_tokenizer(const SentencePiece& model) {
  if (model.type != ModelType::unigram || !model.byte_fallback) return nullptr;
  return {{"type", "Split"},
          {"pattern", {{"Regex", "(?<=<)(?=0x[0-9A-F]{2}>)"}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

json unigram(const SentencePiece& model) {
  constexpr double kNever = -1e9;  // sentencepiece finds no such piece in a text
  float best = std::numeric_limits<float>::lowest();
  for (const Piece& piece : model.pieces)
    if (piece.type == PieceType::normal) best = std::max(best, piece.score);
  json vocab = json::array(), unknown_id = nullptr;
  for (const Piece& piece : model.pieces) {
    double score = piece.score;
    if (piece.type == PieceType::user_defined)  // better than any pieces that it might consist of
      score = static_cast<double>(piece.text.size()) * best - 0.1;
    if (piece.type == PieceType::byte || piece.type == PieceType::unused) score = kNever;
    if (piece.type == PieceType::unknown) unknown_id = vocab.size();
    vocab.push_back({piece.text, score});
  }
  return {{"type", "Unigram"},
          {"unk_id", unknown_id},
          {"vocab", std::move(vocab)},
          {"byte_fallback", model.byte_fallback}};
}

json added_tokens(const SentencePiece& model, std::span<const Piece* const> symbols,
                  std::span<const std::string> chat_tokens) {
  json tokens = json::array();
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    const bool is_special = piece.type == PieceType::unknown || piece.type == PieceType::control ||
                            (piece.type == PieceType::user_defined &&
                             std::ranges::find(chat_tokens, piece.text) != chat_tokens.end());
    const bool is_found_before =
        piece.type == PieceType::user_defined && model.type != ModelType::unigram;
    if (!is_special && !is_found_before) continue;
    tokens.push_back({{"id", id},
                      {"content", piece.text},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", std::ranges::find(symbols, &piece) != symbols.end()},
                      {"special", is_special}});
  }
  return tokens;
}

json post_processor(const SentencePiece& model) {
  const auto bos = std::ranges::find_if(model.pieces, [&](const Piece& piece) {
    return piece.type == PieceType::control && piece.text == model.bos_piece;
  });
  if (bos == model.pieces.end()) return nullptr;
  auto special = [&](int type) {
    return json{{"SpecialToken", {{"id", bos->text}, {"type_id", type}}}};
  };
  auto text = [](const char* id, int type) {
    return json{{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", {special(0), text("A", 0)}},
          {"pair", {special(0), text("A", 0), special(1), text("B", 1)}},
          {"special_tokens",
           {{bos->text,
             {{"id", bos->text},
              {"ids", json::array({bos - model.pieces.begin()})},
              {"tokens", json::array({bos->text})}}}}}};
}

json decoder(const SentencePiece& model) {
  json steps = {replace("String", kSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (model.add_dummy_prefix)
    steps.push_back({{"type", "Strip"},
                     {"content", " "},
                     {"start", model.treat_whitespace_as_suffix ? 0 : 1},
                     {"stop", model.treat_whitespace_as_suffix ? 1 : 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

}  // namespace

const char* sentencepiece_model_type(std::string_view bytes) {
  switch (read_model(bytes).type) {
    case ModelType::unigram:
      return "Unigram";
    case ModelType::bpe:
      return "BPE";
    case ModelType::word:
      return "word";
    case ModelType::character:
      return "char";
  }
  return "unknown";
}

std::string tokenizer_json_of_sentencepiece(std::string_view bytes,
                                            std::span<const std::string> chat_tokens) {
  const SentencePiece model = read_model(bytes);
  if (model.type == ModelType::word) return "";
  const std::vector<const Piece*> symbols = symbols_in_normal_text(model, chat_tokens);
  const json object = {{"version", "1.0"},
                       {"truncation", nullptr},
                       {"padding", nullptr},
                       {"added_tokens", added_tokens(model, symbols, chat_tokens)},
                       {"normalizer", normalizer(model, symbols)},
                       {"pre_tokenizer", pre_tokenizer(model)},
                       {"post_processor", post_processor(model)},
                       {"decoder", decoder(model)},
                       {"model", model.type == ModelType::unigram ? unigram(model) : bpe(model)}};
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace longshore::data
