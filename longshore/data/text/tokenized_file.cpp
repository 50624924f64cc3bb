#include "longshore/data/text/tokenized_file.h"

#include <cinttypes>
#include <cstdio>
#include <optional>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/lock_file.h"
#include "longshore/base/pieces.h"
#include "longshore/base/printable.h"
#include "longshore/base/progress.h"
#include "longshore/base/stop_signal.h"
#include "longshore/base/text.h"
#include "longshore/data/files/content_hash.h"
#include "longshore/data/files/file_mapping.h"
#include "longshore/data/files/fnv1a.h"
#include "longshore/data/files/text_format.h"
#include "longshore/data/rows/referenced_image.h"

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

const char* kind_settings(ExampleKind kind) {
  return kind == ExampleKind::text ? " " : kind == ExampleKind::preference ? "p " : "r ";
}

std::string all_settings(const fs::path& text, const Tokenizer& tokenizer,
                         const TokenizeOptions& options, const fs::path& cache) {
  return std::to_string(kEncodingVersion) + kind_settings(options.kind) +
         std::to_string(tokenizer.fingerprint()) + " " + std::to_string(tokenizer.bos_id()) + " " +
         std::to_string(tokenizer.eos_id()) + " " +
         std::to_string(static_cast<int>(text_format(text).value())) + " " +
         std::to_string(options.skip_bad_lines) + " " +
         std::to_string(static_cast<int>(options.encode.add_bos_eos)) +
         (has_records(text) ? record_settings(options) + image_settings(text, options, cache) : "");
}

void require_wanted(bool is_wanted, const fs::path& text) {
  if (!is_wanted) throw Error(path_text(text) + ": the run ends before it is tokenized");
}

fs::path token_file_name(const fs::path& text, const Tokenizer& tokenizer,
                         const TokenizeOptions& options, const fs::path& cache) {
  const FileMapping mapping(text, Access::from_front_to_back);
  const std::string_view contents = mapping.text();
  std::optional<Progress> progress;
  if (options.shows_progress) progress.emplace("hashing the text", std::ssize(contents));
  uint64_t hash = fnv1a(all_settings(text, tokenizer, options, cache));
  for_each_piece(std::ssize(contents), int64_t{64} << 20, [&](int64_t first, int64_t count) {
    require_wanted(!options.stop.stop_requested(), text);
    hash = fnv1a(contents.substr(static_cast<size_t>(first), static_cast<size_t>(count)), hash);
    if (progress) progress->add(count);
  });
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, hash);
  return text.stem().string() + "-" + digits + ".tokens";
}

fs::path lock_name(const fs::path& tokens) { return tokens.string() + ".lock"; }

}  // namespace

std::shared_ptr<const TokenFile> open_tokenized(const fs::path& text, const Tokenizer& tokenizer,
                                                const TokenizeOptions& options,
                                                const fs::path& cache) {
  const fs::path file = cache / token_file_name(text, tokenizer, options, cache);
  std::error_code error;
  fs::create_directories(cache, error);
  if (error) throw FileError(path_text(cache) + ": cannot be made: " + error.message());
  const LockFile lock(lock_name(file), [&] {
    require_wanted(!options.stop.stop_requested() && !StopSignal::is_there(), text);
  });
  auto tokenize = [&] { tokenize_files(tokenizer, {&text, 1}, file, options); };
  auto open = [&] { return std::make_shared<const TokenFile>(file); };
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

std::string text_identity(const fs::path& text, const Tokenizer& tokenizer, TokenizeOptions options,
                          const fs::path& cache) {
  options.skip_bad_lines = false;
  return content_hash(sampled_hash(FileMapping(text, Access::anywhere).bytes()) + " " +
                      all_settings(text, tokenizer, options, cache));
}

void remove_tokenized(const fs::path& tokens) {
  const LockFile lock(lock_name(tokens), [] {});
  std::error_code error;  // what is gone, or cannot be removed, costs but room
  fs::remove(tokens, error);
}

}  // namespace longshore::data
