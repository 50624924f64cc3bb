// A LineReader reads the lines of a text file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/files/byte_source.h"

namespace longshore::data {

// Reads as it goes, so a file may be of any size, and packed. Throws what ByteSource throws.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path);

  // Puts the next line into `line`, without "\n" or "\r\n", the first one without a byte order
  // mark. False at the end of the file. Throws a DataError with file and line on one of more than
  // kMaxTextBytes; the next call goes on after it.
  [[nodiscard]] bool next(std::string& line);

  const std::filesystem::path& path() const { return path_; }
  // The number of the line that next() gave, counted from 1.
  int64_t line_number() const { return line_number_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<ByteSource> file_;
  std::vector<char> buffer_;
  std::string_view unread_;  // the part of buffer_ still to be cut into lines
  int64_t line_number_ = 0;
};

// Empty, or ASCII white space only.
bool is_blank(std::string_view line);

// "a.jsonl:12: what"
std::string at_line(const std::filesystem::path& path, int64_t line_number,
                    const std::string& what);

}  // namespace longshore::data
