#include "data/text/tokenized_file.h"

#include <cinttypes>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "base/text.h"
#include "data/files/file_mapping.h"
#include "data/files/fnv1a.h"
#include "data/files/text_format.h"
#include "data/rows/referenced_image.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;

// To be raised with every change to what tokens a text becomes.
constexpr int kEncodingVersion = 6;

// What decides about the images of lines of JSON; "" for a model without. The way from the tokens
// to the text is that to images of relative paths too.
std::string image_settings(const fs::path& text, const TokenizeOptions& options,
                           const fs::path& cache) {
  if (!options.encode.image_text) return "";
  const ImageText& image_text = *options.encode.image_text;
  return " " + std::to_string(static_cast<int>(image_text.kind)) + " " +
         std::to_string(image_text.image_token) + " " +
         std::to_string(image_text.tokens_per_image) + " " +
         std::to_string(options.max_image_pixels) + " " +
         in_full(text.parent_path()).lexically_relative(in_full(cache)).string();
}

// What decides how records are read and written.
std::string record_settings(const TokenizeOptions& options) {
  const std::optional<ChatTemplate>& chat_template = options.encode.chat_template;
  return " " + std::to_string(chat_template ? chat_template->fingerprint() : 0) + " " +
         std::to_string(static_cast<int>(options.encode.train_on)) + " " + join(options.columns);
}

fs::path token_file_name(const fs::path& text, const Tokenizer& tokenizer,
                         const TokenizeOptions& options, const fs::path& cache) {
  const std::string settings =
      std::to_string(kEncodingVersion) + (options.preference ? "p " : " ") +
      std::to_string(tokenizer.fingerprint()) + " " + std::to_string(tokenizer.bos_id()) + " " +
      std::to_string(tokenizer.eos_id()) + " " +
      std::to_string(static_cast<int>(text_format(text).value())) + " " +
      std::to_string(options.skip_bad_lines) + " " +
      std::to_string(static_cast<int>(options.encode.add_bos_eos)) +
      (has_records(text) ? record_settings(options) + image_settings(text, options, cache) : "");
  const FileMapping contents(text, Access::from_front_to_back);
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016" PRIx64, fnv1a(contents.text(), fnv1a(settings)));
  return text.stem().string() + "-" + hash + ".tokens";
}

}  // namespace

std::shared_ptr<const TokenFile> open_tokenized(const fs::path& text, const Tokenizer& tokenizer,
                                                const TokenizeOptions& options,
                                                const fs::path& cache) {
  const fs::path file = cache / token_file_name(text, tokenizer, options, cache);
  auto tokenize = [&] {
    std::error_code error;
    fs::create_directories(cache, error);
    if (error) throw FileError(path_text(cache) + ": cannot be made: " + error.message());
    tokenize_files(tokenizer, {&text, 1}, file, options);
  };
  auto open = [&] { return std::make_shared<const TokenFile>(file); };
  std::error_code error;
  const bool was_there = fs::exists(file, error);
  if (!was_there) tokenize();
  try {
    auto tokens = open();
    if (!was_there || has_images_of_these_sizes(*tokens)) return tokens;
    tokenize();
    return open();
  } catch (const DataError& error) {
    throw DataError(std::string(error.what()) + "; nearest: remove it, and " + path_text(text) +
                    " is tokenized again");
  }
}

}  // namespace longshore::data
