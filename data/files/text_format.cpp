#include "data/files/text_format.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "data/files/byte_source.h"

namespace longshore::data {

std::optional<TextFormat> text_format(const std::filesystem::path& path) {
  const bool is_packed = compression_of(path) != Compression::none;
  std::string ending = (is_packed ? path.stem() : path).extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const auto& [name, format] : {std::pair{".txt", TextFormat::paragraphs},
                                     {".jsonl", TextFormat::json_lines},
                                     {".ndjson", TextFormat::json_lines},
                                     {".jsonlines", TextFormat::json_lines},
                                     {".json", TextFormat::json},
                                     {".csv", TextFormat::csv},
                                     {".tsv", TextFormat::tsv}})
    if (ending == name) return format;
  return std::nullopt;
}

bool is_text(const std::filesystem::path& path) { return text_format(path).has_value(); }

bool has_records(const std::filesystem::path& path) {
  return is_text(path) && text_format(path) != TextFormat::paragraphs;
}

}  // namespace longshore::data
