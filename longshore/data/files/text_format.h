// text_format() says by the name of a file of texts what it holds, and compression_of() how it is
// packed.
#pragma once

#include <filesystem>
#include <optional>

namespace longshore::data {

enum class Compression { none, gzip, zstd };

// By the ending of the file's name, in any case: .gz, .zst.
Compression compression_of(const std::filesystem::path& path);

enum class TextFormat {
  paragraphs,  // .txt: see DocumentReader
  json_lines,  // .jsonl, .ndjson, .jsonlines: an object a line
  json,        // .json: a list of objects, or an object a line
  csv,         // .csv: columns by the names in the first row
  tsv,         // .tsv: with tabs between them
  parquet,     // .parquet, which is never packed again
  arrow        // .arrow, neither: of Arrow's file or stream format
};

// By the ending, in any case, before .gz or .zst where it has one; nothing for other names.
std::optional<TextFormat> text_format(const std::filesystem::path& path);

// Other files that training reads are token files.
bool is_text(const std::filesystem::path& path);

// Whether its documents are Records.
bool has_records(const std::filesystem::path& path);

}  // namespace longshore::data
