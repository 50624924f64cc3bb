#include "data/document_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

namespace longshore::data {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\v\f\r") == std::string_view::npos;
}

}  // namespace

DocumentReader::DocumentReader(const std::filesystem::path& path)
    : path_(path), buffer_(kBufferBytes) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw DataError(path.string() + ": expected a text file, found a folder");
  errno = 0;
  file_.open(path, std::ios::binary);
  if (!file_) throw DataError(path.string() + ": cannot open: " + std::strerror(errno));
}

bool DocumentReader::next(std::string& document) {
  document.clear();
  while (next_line()) {
    if (is_blank(line_)) {
      if (!document.empty()) return true;
      continue;
    }
    if (!document.empty()) document += '\n';
    document += line_;
    if (document.size() > Tokenizer::kMaxTextBytes) fail_at_line("no blank line so far");
  }
  return !document.empty();
}

// Puts the next line into line_, without its end.
bool DocumentReader::next_line() {
  line_.clear();
  ++line_number_;
  while (true) {
    if (unread_.empty()) {
      file_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
      if (file_.bad()) throw DataError(path_.string() + ": cannot read: " + std::strerror(errno));
      unread_ = {buffer_.data(), static_cast<size_t>(file_.gcount())};
      if (unread_.empty() && line_.empty()) return false;
    }
    const size_t end = std::min(unread_.find('\n'), unread_.size());
    const bool complete = end < unread_.size() || unread_.empty();
    line_ += unread_.substr(0, end);
    unread_.remove_prefix(std::min(end + 1, unread_.size()));
    if (line_.size() > Tokenizer::kMaxTextBytes) fail_at_line("no end of the line so far");
    if (complete) break;
  }
  if (line_.ends_with('\r')) line_.pop_back();
  const size_t valid_bytes = valid_utf8_prefix(line_);
  if (valid_bytes < line_.size()) {
    char byte[5];
    std::snprintf(byte, sizeof byte, "0x%02X", static_cast<unsigned char>(line_[valid_bytes]));
    throw DataError(path_.string() + ":" + std::to_string(line_number_) +
                    ": invalid UTF-8: found " + byte + " at byte " +
                    std::to_string(valid_bytes + 1) + " of the line");
  }
  return true;
}

void DocumentReader::fail_at_line(const std::string& what) const {
  throw DataError(path_.string() + ":" + std::to_string(line_number_) + ": document of more than " +
                  std::to_string(Tokenizer::kMaxTextBytes) + " bytes: " + what +
                  ". Separate documents by blank lines.");
}

}  // namespace longshore::data
