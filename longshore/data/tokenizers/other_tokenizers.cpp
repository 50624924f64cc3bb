#include "longshore/data/tokenizers/other_tokenizers.h"

#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWordPiece =
    "found the vocab.txt of a WordPiece tokenizer, as BERT has it, expected BPE or a sentencepiece "
    "model, as models that write text have";
constexpr const char* kMerges =
    "found a merges.txt, which is half of a tokenizer, expected the tokenizer.json that "
    "transformers makes of it and vocab.json: "
    "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)";

}  // namespace

std::string other_tokenizer(const fs::path& path, std::string_view bytes) {
  if (bytes.starts_with("version https://git-lfs"))
    return "found a pointer of Git LFS, expected the file that it stands for; git lfs pull fetches "
           "it";
  if (bytes.starts_with("GGUF"))
    return "found a GGUF file, expected the tokenizer.json that the model has in Hugging Face's "
           "format";
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
  if (has("vocab.json") && has("merges.txt"))
    return "found vocab.json and merges.txt, of which transformers makes a tokenizer.json: "
           "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)";
  if (has("vocab.txt")) return kWordPiece;
  if (has("tiktoken.model")) return "found tiktoken.model, which does not say how text is split";
  return "found none";
}

std::string other_tokenizer_beside(const fs::path& path) {
  std::error_code error;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tekken.json"}) {
    const fs::path other = path.parent_path() / name;
    if (path.filename() != name && fs::is_regular_file(other, error))
      return nearest_help(path_text(other));
  }
  return "";
}

}  // namespace longshore::data
