#include "longshore/data/text/line_reader.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

LineReader::LineReader(const std::filesystem::path& path)
    : path_(path), file_(ByteSource::open(path)), buffer_(kBufferBytes) {}

bool LineReader::next(std::string& line) {
  line.clear();
  ++line_number_;
  bool is_too_long = false;
  while (true) {
    if (unread_.empty()) {
      unread_ = {buffer_.data(), file_->read(buffer_)};
      if (unread_.empty() && line.empty() && !is_too_long) return false;
    }
    const size_t end = std::min(unread_.find('\n'), unread_.size());
    const bool is_complete = end < unread_.size() || unread_.empty();
    if (!is_too_long) line += unread_.substr(0, end);
    unread_.remove_prefix(std::min(end + 1, unread_.size()));
    if (line.size() > kMaxTextBytes) {
      is_too_long = true;
      line.clear();
    }
    if (is_complete) break;
  }
  if (is_too_long)
    throw DataError(at_line(
        path_, line_number_,
        "line of more than " + std::to_string(kMaxTextBytes) + " bytes, which is never skipped"));
  if (line.ends_with('\r')) line.pop_back();
  if (line_number_ == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
  return true;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\v\f\r") == std::string_view::npos;
}

std::string at_line(const std::filesystem::path& path, int64_t line_number,
                    const std::string& what) {
  return path_text(path) + ":" + std::to_string(line_number) + ": " + what;
}

}  // namespace longshore::data
