// Writes a tokenizer.json of byte-level BPE.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace longshore::data {

struct SpecialToken {
  std::string text;
  bool is_control = true;  // which decoding may leave out
};

struct ByteLevelBpe {
  std::vector<std::string> tokens;                          // bytes, by id from the first one on
  std::vector<std::pair<std::string, std::string>> merges;  // bytes, best first
  std::vector<SpecialToken> special;
  bool special_first = false;  // their ids are the first, or else the last
  std::string split;           // the expression by which text is cut
  std::string bos;             // the special token that texts begin with; "" for none
  bool ignore_merges = false;  // what is a token as a whole is not cut
};

std::string tokenizer_json_of(const ByteLevelBpe& bpe);

}  // namespace longshore::data
