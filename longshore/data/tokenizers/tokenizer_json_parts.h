// Parts of a tokenizer.json. Vocabulary and merges, which are most of it, are read straight into
// tables; all else becomes a small document. Knows nothing of what the parts mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longshore::data {

// Far above what real tokenizers have: ids are below it, which bounds time and memory.
inline constexpr size_t kMaxTokenizerTokens = size_t{1} << 22;

// Where vocabulary and merges stand in the file, for messages.
inline constexpr const char* kVocabPlace = "model/vocab";
inline constexpr const char* kMergesPlace = "model/merges";

struct NamedId {
  std::string token;
  int64_t id;
};

struct TokenizerJsonParts {
  nlohmann::json document;                             // an object, without vocabulary and merges
  std::vector<NamedId> vocab;                          // of BPE
  std::vector<std::pair<std::string, double>> scores;  // of Unigram: tokens and scores, by id
  std::vector<std::pair<std::string, std::string>> merges;  // left and right
  bool has_vocab = false, has_scores = false, has_merges = false;
};

// Throws a DataError that gives the place within the file, without the file's name, for what is no
// JSON, is there twice, too large or too deep, and where vocabulary or merges are of other types.
TokenizerJsonParts split_tokenizer_json(std::string_view text);

}  // namespace longshore::data
