// The name of a text file decides its format.
#pragma once

#include <filesystem>

namespace longshore::data {

// An Example a line.
inline bool is_jsonl(const std::filesystem::path& path) { return path.extension() == ".jsonl"; }

// Other files that training reads are token files.
inline bool is_text(const std::filesystem::path& path) {
  return is_jsonl(path) || path.extension() == ".txt";
}

}  // namespace longshore::data
