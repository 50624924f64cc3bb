#include "longshore/data/files/text_format.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

namespace longshore::data {
namespace {

std::string ending_of(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending;
}

}  // namespace

Compression compression_of(const std::filesystem::path& path) {
  const std::string ending = ending_of(path);
  if (ending == ".gz") return Compression::gzip;
  return ending == ".zst" ? Compression::zstd : Compression::none;
}

std::optional<TextFormat> text_format(const std::filesystem::path& path) {
  const bool is_packed = compression_of(path) != Compression::none;
  const std::string ending = ending_of(is_packed ? path.stem() : path);
  for (const auto& [name, format] : {std::pair{".txt", TextFormat::paragraphs},
                                     {".jsonl", TextFormat::json_lines},
                                     {".ndjson", TextFormat::json_lines},
                                     {".jsonlines", TextFormat::json_lines},
                                     {".json", TextFormat::json},
                                     {".csv", TextFormat::csv},
                                     {".tsv", TextFormat::tsv}})
    if (ending == name) return format;
  if (is_packed) return std::nullopt;
  if (ending == ".parquet") return TextFormat::parquet;
  if (ending == ".arrow") return TextFormat::arrow;
  return std::nullopt;
}

bool is_text(const std::filesystem::path& path) { return text_format(path).has_value(); }

bool has_records(const std::filesystem::path& path) {
  return is_text(path) && text_format(path) != TextFormat::paragraphs;
}

}  // namespace longshore::data
