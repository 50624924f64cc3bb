#include "longshore/data/tokenizers/tiktoken.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/images/base64.h"
#include "longshore/data/tokenizers/known_splits.h"
#include "longshore/data/tokenizers/ranked_tokens.h"

namespace longshore::data {
namespace {

class SpecialTokens {
 public:
  SpecialTokens& add(std::initializer_list<const char*> names) {
    for (const char* name : names) tokens_.push_back({name});
    return *this;
  }
  // PREFIX0|>, PREFIX1|> and so on.
  SpecialTokens& add_numbered(const std::string& prefix, size_t first, size_t last) {
    for (size_t i = first; i <= last; ++i) tokens_.push_back({prefix + std::to_string(i) + "|>"});
    return *this;
  }
  std::vector<SpecialToken> take() { return std::move(tokens_); }

 private:
  std::vector<SpecialToken> tokens_;
};

// As llama-models 0.3.0 names them; of Llama 3 itself some were reserved yet.
std::vector<SpecialToken> llama3_tokens() {
  return SpecialTokens()
      .add({"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
            "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|step_id|>",
            "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>",
            "<|python_tag|>", "<|image|>"})
      .add_numbered("<|reserved_special_token_", 2, 245)
      .take();
}

std::vector<SpecialToken> llama4_tokens() {
  return SpecialTokens()
      .add({"<|begin_of_text|>", "<|end_of_text|>", "<|fim_prefix|>", "<|fim_middle|>",
            "<|fim_suffix|>", "<|header_start|>", "<|header_end|>", "<|eom|>", "<|eot|>",
            "<|step|>"})
      .add_numbered("<|text_post_train_reserved_special_token_", 0, 5)
      .add({"<|python_start|>", "<|python_end|>", "<|finetune_right_pad|>"})
      .add_numbered("<|text_post_train_reserved_special_token_", 8, 68)
      .add({"<|image_start|>", "<|image_end|>"})
      .add_numbered("<|vision_reserved_special_token_", 0, 1)
      .add({"<|tile_x_separator|>", "<|tile_y_separator|>"})
      .add_numbered("<|vision_reserved_special_token_", 2, 5)
      .add({"<|image|>"})
      .add_numbered("<|vision_reserved_special_token_", 6, 6)
      .add({"<|patch|>"})
      .add_numbered("<|vision_reserved_special_token_", 7, 1047)
      .add_numbered("<|reasoning_reserved_special_token_", 0, 7)
      .add({"<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>"})
      .add_numbered("<|reserved_special_token_", 0, 903)
      .take();
}

std::vector<SpecialToken> qwen_tokens() {
  return SpecialTokens()
      .add({"<|endoftext|>", "<|im_start|>", "<|im_end|>"})
      .add_numbered("<|extra_", 0, 204)
      .take();
}

struct KnownFile {
  const char* name;
  size_t tokens;
  const char* last;
  const char* split;
  std::vector<SpecialToken> (*special)();
  const char* bos;
};

constexpr KnownFile kKnownFiles[] = {
    {"Llama 3", 128000, "\xe9\x94\xa6", kLlama3Split, llama3_tokens, "<|begin_of_text|>"},
    {"Llama 4", 200000, "(ge", kLlama4Split, llama4_tokens, "<|begin_of_text|>"},
    {"Qwen", 151643, "\xe2\xbd\x97", kQwenSplit, qwen_tokens, ""},
};

std::string_view first_line(std::string_view bytes) {
  std::string_view line = bytes.substr(0, bytes.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// A token and its rank; nothing where the line is none.
struct Line {
  std::string_view base64;
  size_t rank;
};
std::optional<Line> parsed(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == 0 || space == line.npos || space % 4 != 0) return std::nullopt;
  Line result{line.substr(0, space), 0};
  auto is_base64 = [](unsigned char c) {
    return std::isalnum(c) || c == '+' || c == '/' || c == '=';
  };
  if (!std::ranges::all_of(result.base64, is_base64)) return std::nullopt;
  const char *begin = line.data() + space + 1, *end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(begin, end, result.rank);
  if (error != std::errc() || stop != end) return std::nullopt;
  return result;
}

std::vector<std::string> tokens_of(std::string_view bytes) {
  std::vector<std::string> tokens;
  while (!bytes.empty()) {
    const std::string_view line = first_line(bytes);
    bytes.remove_prefix(std::min(bytes.find('\n'), bytes.size() - 1) + 1);
    if (line.empty() && bytes.empty()) break;
    const std::optional<Line> entry = parsed(line);
    if (!entry || entry->rank != tokens.size())
      throw DataError("line " + std::to_string(tokens.size() + 1) +
                      ": expected a token in base64 and " + std::to_string(tokens.size()) +
                      ", found " + in_quotes(line));
    try {
      const std::vector<std::byte> token = decode_base64(entry->base64);
      tokens.emplace_back(reinterpret_cast<const char*>(token.data()), token.size());
    } catch (const DataError& error) {
      throw DataError("line " + std::to_string(tokens.size() + 1) + ": " + error.what());
    }
  }
  return tokens;
}

}  // namespace

bool is_tiktoken(std::string_view bytes) { return parsed(first_line(bytes)).has_value(); }

std::string tokenizer_json_of_tiktoken(std::string_view bytes) {
  RankedTokens ranked{.tokens = tokens_of(bytes)};
  if (ranked.tokens.empty()) throw DataError("found a tiktoken file without tokens");
  const auto known = std::ranges::find_if(kKnownFiles, [&](const KnownFile& file) {
    return ranked.tokens.size() == file.tokens && ranked.tokens.back() == file.last;
  });
  if (known == std::end(kKnownFiles)) {
    std::vector<std::string> names;
    for (const KnownFile& file : kKnownFiles)
      names.push_back(std::string(file.name) + " (" + std::to_string(file.tokens) + " tokens)");
    throw DataError("found a tiktoken file of " + plural(std::ssize(ranked.tokens), "token") +
                    ", which does not say how text is split; expected that of " + join(names) +
                    ", or the tokenizer.json that the model has in Hugging Face's format");
  }
  ranked.special = known->special();
  ranked.split = known->split;
  ranked.bos = known->bos;
  return tokenizer_json_of_ranked(std::move(ranked));
}

}  // namespace longshore::data
