#include "longshore/data/tokenizers/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"
#include "longshore/data/files/fnv1a.h"
#include "longshore/data/tokenizers/add_tokens.h"
#include "longshore/data/tokenizers/json_tokenizer.h"
#include "longshore/data/tokenizers/other_tokenizers.h"
#include "longshore/data/tokenizers/sentencepiece_model.h"
#include "longshore/data/tokenizers/tekken.h"
#include "longshore/data/tokenizers/tiktoken.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = size_t{64} << 20;
constexpr size_t kMaxConfigBytes = size_t{16} << 20;  // of which a tree is made in memory

std::string read_tokenizer_file(const fs::path& path, size_t most = kMaxFileBytes) {
  std::error_code error;
  if (!fs::exists(path, error)) throw DataError(path_text(path) + ": no such tokenizer file");
  if (!fs::is_regular_file(path, error))
    throw DataError(path_text(path) + ": expected a tokenizer file, found no regular file");
  const uintmax_t size = fs::file_size(path, error);
  if (error) throw DataError(path_text(path) + ": " + error.message());
  if (size > most)
    throw DataError(path_text(path) + ": found " + std::to_string(size) +
                    " bytes, expected at most " + std::to_string(most >> 20) + " MiB");
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size)))
    throw DataError(path_text(path) + ": cannot read the tokenizer file");
  return bytes;
}

fs::path file_at(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  if (std::optional<fs::path> file = tokenizer_file(path)) return *std::move(file);
  throw DataError(path_text(path) +
                  ": expected a tokenizer.json, tokenizer.model or tekken.json in this folder, " +
                  other_tokenizer_in(path));
}

// Of a file of ranked tokens.
std::optional<std::string> as_tokenizer_json(std::string_view bytes) {
  if (is_tiktoken(bytes)) return tokenizer_json_of_tiktoken(bytes);
  if (is_tekken(bytes)) return tokenizer_json_of_tekken(bytes);
  return std::nullopt;
}

fs::path config_beside(const fs::path& file) {
  return file.parent_path() / "tokenizer_config.json";
}

// Whether the folder's tokenizer_config.json says that its tokenizer.json was made from its
// tokenizer.model. What is wrong with the file is said where more of it is read.
bool is_made_from_sentencepiece(const fs::path& folder) {
  const fs::path path = config_beside(folder / "tokenizer.json");
  if (std::error_code error; !fs::exists(path, error)) return false;
  const std::string text = read_tokenizer_file(path, kMaxConfigBytes);
  try {
    const auto config = json_tree(text);
    return config.is_object() &&
           config.value(kSentencepieceKey, nlohmann::json()) == "tokenizer.model";
  } catch (const DataError&) {
    return false;
  }
}

// The id that tokenizer_config.json gives under `key`, as a name or an object that holds one;
// `otherwise` when it gives none.
int32_t configured_id(const nlohmann::json& config, const char* key, const TokenizerModel& model,
                      int32_t otherwise) {
  auto token = config.find(key);
  if (token == config.end() || token->is_null()) return otherwise;
  const nlohmann::json& name =
      token->is_object() ? token->value("content", nlohmann::json()) : *token;
  if (!name.is_string())
    throw DataError(std::string(key) + ": expected a token's name, found " + shown(name));
  const std::optional<int32_t> id = model.id_of(name.get<std::string>());
  if (!id)
    throw DataError(std::string(key) + ": " + in_quotes(name.get<std::string>()) +
                    " is no token of tokenizer.json");
  return *id;
}

}  // namespace

std::optional<fs::path> tokenizer_file(const fs::path& folder) {
  std::error_code error;
  const fs::path json = folder / "tokenizer.json", model = folder / "tokenizer.model";
  const bool has_json = fs::exists(json, error), has_model = fs::exists(model, error);
  if (has_model && (!has_json || is_made_from_sentencepiece(folder))) return model;
  if (has_json) return json;
  for (const char* name : {"tekken.json", "qwen.tiktoken"})
    if (fs::exists(folder / name, error)) return folder / name;
  return std::nullopt;
}

bool is_tokenizer_json(const fs::path& path, std::string_view bytes) {
  if (path.extension() == ".json") return true;
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != bytes.npos && bytes[first] == '{';
}

Tokenizer::Tokenizer(const fs::path& path, std::span<const std::string> add_tokens)
    : path_(file_at(path)) {
  std::string bytes = read_tokenizer_file(path_);
  bool is_json = is_tokenizer_json(path_, bytes);
  try {
    if (std::optional<std::string> json = as_tokenizer_json(bytes)) {
      is_json = true;
      extended_json_ = bytes = *std::move(json);
    }
    model_ = is_json ? make_json_tokenizer(bytes) : make_sentencepiece_model(bytes);
  } catch (const DataError& error) {
    const std::string other = other_tokenizer(path_, bytes);
    throw DataError(path_text(path_) + ": " + (other.empty() ? error.what() : other) +
                    other_tokenizer_beside(path_));
  }
  is_sentencepiece_ = !is_json;
  add(add_tokens, bytes);
  eos_id_ = model_->eos_id();
  fingerprint_ = fnv1a(bytes);

  const fs::path config_path = config_beside(path_);
  if (std::error_code error; !is_json || !fs::exists(config_path, error)) return;
  const std::string config_bytes = read_tokenizer_file(config_path, kMaxConfigBytes);
  try {
    const auto config = json_tree(config_bytes);
    if (!config.is_object()) throw DataError("expected an object");
    eos_id_ = configured_id(config, "eos_token", *model_, eos_id_);
  } catch (const DataError& error) {
    throw DataError(path_text(config_path) + ": " + error.what());
  }
}

Tokenizer::~Tokenizer() = default;

void Tokenizer::add(std::span<const std::string> tokens, std::string& bytes) {
  std::vector<NamedToken> added;
  int32_t next = vocab_size();
  for (const std::string& token : tokens) {
    if (token.empty() || valid_utf8_prefix(token) != token.size())
      throw DataError("found " + in_quotes(token) + " among the tokens to add, expected UTF-8");
    if (model_->is_added(token) ||
        std::ranges::find(added, token, &NamedToken::first) != added.end())
      continue;
    const std::optional<int32_t> piece = id_of(token);
    added.emplace_back(token, piece ? *piece : next++);
  }
  if (added.empty()) return;
  if (is_sentencepiece_)
    throw DataError(path_text(path_) + ": is a sentencepiece model, expected a tokenizer.json, " +
                    "to which tokens can be added");
  if (model_->has_gaps())
    throw DataError(path_text(path_) +
                    ": found numbers that are no token's, which programs count differently when "
                    "they add tokens; expected none, or a tokenizer.json that has the tokens");
  try {
    bytes = with_added_tokens(bytes, added);
    model_ = make_json_tokenizer(bytes);
  } catch (const DataError& error) {
    throw DataError(path_text(path_) + ", with tokens added: " + error.what());
  }
  extended_json_ = bytes;
}

std::string Tokenizer::spelling(int32_t id) const {
  return id >= 0 && id < vocab_size() ? model_->spelling(id) : "";
}

std::optional<uint8_t> Tokenizer::byte_of(int32_t id) const {
  check(id);
  return model_->byte_of(id);
}

void Tokenizer::check(int32_t id) const {
  if (id < 0 || id >= vocab_size())
    throw DataError(path_text(path_) + ": token id " + std::to_string(id) +
                    "; the vocabulary has " + std::to_string(vocab_size()));
}

std::vector<fs::path> Tokenizer::files() const { return {path_, config_beside(path_)}; }

std::vector<int32_t> Tokenizer::encode(std::string_view text, TextPosition position) const {
  if (text.size() > kMaxTextBytes)
    throw DataError("text of " + std::to_string(text.size()) + " bytes; at most " +
                    std::to_string(kMaxTextBytes) + " can be tokenized at once");
  try {
    return model_->encode(text, position);
  } catch (const DataError& error) {
    throw DataError(path_text(path_) + ": " + error.what());
  }
}

std::vector<TextPart> Tokenizer::split(std::string_view text) const {
  std::vector<TextPart> parts;
  model_->split(text, parts);
  return parts;
}

int64_t Tokenizer::text_bytes(std::span<const int32_t> ids) const {
  int64_t bytes = 0;
  for (int32_t id : ids) bytes += model_->text_bytes(id);
  return bytes;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, SpecialTokens special) const {
  for (int32_t id : ids) check(id);
  try {
    return model_->decode(ids, special);
  } catch (const DataError& error) {
    throw DataError(path_text(path_) + ": " + error.what());
  }
}

}  // namespace longshore::data
