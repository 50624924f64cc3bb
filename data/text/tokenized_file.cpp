#include "data/text/tokenized_file.h"

#include <cinttypes>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "data/files/file_mapping.h"
#include "data/files/fnv1a.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;

// To be raised with every change to what tokens a text becomes.
constexpr int kEncodingVersion = 4;

fs::path token_file_name(const fs::path& text, const Tokenizer& tokenizer,
                         const TokenizeOptions& options) {
  const std::string settings =
      std::to_string(kEncodingVersion) + " " + std::to_string(tokenizer.fingerprint()) + " " +
      std::to_string(tokenizer.bos_id()) + " " + std::to_string(tokenizer.eos_id()) + " " +
      text.extension().string() + " " + options.chat_template + " " +
      std::to_string(options.skip_bad_lines) + " " +
      std::to_string(static_cast<int>(options.add_bos_eos));
  const FileMapping contents(text, Access::from_front_to_back);
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016" PRIx64, fnv1a(contents.text(), fnv1a(settings)));
  return text.stem().string() + "-" + hash + ".tokens";
}

}  // namespace

std::shared_ptr<const TokenFile> open_tokenized(const fs::path& text, const Tokenizer& tokenizer,
                                                const TokenizeOptions& options,
                                                const fs::path& cache) {
  const fs::path file = cache / token_file_name(text, tokenizer, options);
  std::error_code error;
  if (!fs::exists(file, error)) {
    fs::create_directories(cache, error);
    if (error) throw FileError(path_text(cache) + ": cannot be made: " + error.message());
    tokenize_files(tokenizer, {&text, 1}, file, options);
  }
  try {
    return std::make_shared<const TokenFile>(file);
  } catch (const DataError& error) {
    throw DataError(std::string(error.what()) + "; nearest: remove it, and " + path_text(text) +
                    " is tokenized again");
  }
}

}  // namespace longshore::data
