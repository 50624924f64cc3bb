#include "longshore/data/tokenizers/byte_level_json.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "longshore/data/tokenizers/byte_level.h"

namespace longshore::data {
namespace {

using nlohmann::json;

json added_tokens(const std::vector<SpecialToken>& special, size_t first_id) {
  json tokens = json::array();
  for (size_t i = 0; i < special.size(); ++i)
    tokens.push_back({{"id", first_id + i},
                      {"content", special[i].text},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", special[i].is_control}});
  return tokens;
}

json post_processor(const ByteLevelBpe& bpe, size_t first_id) {
  const auto bos = std::ranges::find(bpe.special, bpe.bos, &SpecialToken::text);
  if (bpe.bos.empty() || bos == bpe.special.end()) return nullptr;
  const size_t id = first_id + static_cast<size_t>(bos - bpe.special.begin());
  auto special = [&](int type) {
    return json{{"SpecialToken", {{"id", bpe.bos}, {"type_id", type}}}};
  };
  auto text = [](const char* name, int type) {
    return json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", {special(0), text("A", 0)}},
          {"pair", {special(0), text("A", 0), special(1), text("B", 1)}},
          {"special_tokens",
           {{bpe.bos,
             {{"id", bpe.bos}, {"ids", json::array({id})}, {"tokens", json::array({bpe.bos})}}}}}};
}

}  // namespace

std::string tokenizer_json_of(const ByteLevelBpe& bpe) {
  const size_t first_token = bpe.special_first ? bpe.special.size() : 0;
  const size_t first_special = bpe.special_first ? 0 : bpe.tokens.size();
  json vocab = json::object(), merges = json::array();
  // Those that come first have to be in the vocabulary too, or tokenizers would number them itself.
  for (size_t i = 0; i < bpe.special.size() && bpe.special_first; ++i)
    vocab[bpe.special[i].text] = i;
  for (size_t i = 0; i < bpe.tokens.size(); ++i)
    vocab[byte_level_spelling(bpe.tokens[i])] = first_token + i;
  for (const auto& [left, right] : bpe.merges)
    merges.push_back(byte_level_spelling(left) + " " + byte_level_spelling(right));
  const json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", false}};
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", bpe.split}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const json object = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens(bpe.special, first_special)},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", json::array({split, byte_level})}}},
      {"post_processor", post_processor(bpe, first_special)},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", bpe.ignore_merges},
        {"vocab", std::move(vocab)},
        {"merges", std::move(merges)}}}};
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace longshore::data
