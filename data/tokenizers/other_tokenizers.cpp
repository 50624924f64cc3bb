#include "data/tokenizers/other_tokenizers.h"

#include <algorithm>
#include <cctype>

namespace longshore::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTiktoken =
    "found a tiktoken file, expected the tokenizer.json that the model has in Hugging Face's "
    "format";
constexpr const char* kWordPiece =
    "found the vocab.txt of a WordPiece tokenizer, as BERT has it, expected BPE or a sentencepiece "
    "model, as models that write text have";
constexpr const char* kMerges =
    "found a merges.txt, which is half of a tokenizer, expected the tokenizer.json that "
    "transformers makes of it and vocab.json: "
    "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)";

// A line is a token in base64, a space, and its rank.
bool is_tiktoken(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  const size_t space = line.find(' ');
  if (space == 0 || space == line.npos || space % 4 != 0) return false;
  auto is_base64 = [](unsigned char c) {
    return std::isalnum(c) || c == '+' || c == '/' || c == '=';
  };
  std::string_view rank = line.substr(space + 1);
  if (rank.ends_with('\r')) rank.remove_suffix(1);
  return std::ranges::all_of(line.substr(0, space), is_base64) && !rank.empty() &&
         std::ranges::all_of(rank, [](unsigned char c) { return std::isdigit(c); });
}

}  // namespace

std::string other_tokenizer(const fs::path& path, std::string_view bytes) {
  if (bytes.starts_with("version https://git-lfs"))
    return "found a pointer of Git LFS, expected the file that it stands for; git lfs pull fetches "
           "it";
  if (bytes.starts_with("GGUF"))
    return "found a GGUF file, expected the tokenizer.json that the model has in Hugging Face's "
           "format";
  if (is_tiktoken(bytes)) return kTiktoken;
  if (bytes.starts_with("#version") || path.filename() == "merges.txt") return kMerges;
  if (path.filename() == "vocab.txt") return kWordPiece;
  return "";
}

std::string other_tokenizer_in(const fs::path& folder) {
  auto has = [&](const char* name) {
    std::error_code error;
    return fs::exists(folder / name, error);
  };
  for (const char* name : {"spiece.model", "sentencepiece.bpe.model"})
    if (has(name)) return std::string("found ") + name + ", which can be named itself";
  if (has("tekken.json")) return kTekkenRefusal;
  if (has("vocab.json") && has("merges.txt"))
    return "found vocab.json and merges.txt, of which transformers makes a tokenizer.json: "
           "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)";
  if (has("vocab.txt")) return kWordPiece;
  if (has("tiktoken.model") || has("qwen.tiktoken")) return kTiktoken;
  return "found neither";
}

}  // namespace longshore::data
