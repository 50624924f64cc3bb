#include "longshore/data/text/json_list_reader.h"

#include <string_view>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"
#include "longshore/data/text/line_reader.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr std::string_view kWhiteSpace = " \t\r\n";

}  // namespace

JsonListReader::JsonListReader(const std::filesystem::path& path)
    : path_(path), source_(ByteSource::open(path)), buffer_(kBufferBytes) {
  peek();
  if (std::string_view(buffer_.data(), filled_).starts_with(kByteOrderMark))
    at_ = kByteOrderMark.size();
  if (peek_behind_space() != '[') fail("expected a list of objects");
  take();
}

bool JsonListReader::next(std::string& record) {
  record.clear();
  if (is_finished_) return false;
  if (peek_behind_space() == ']') {
    take();
    if (peek_behind_space() >= 0)
      fail("found text behind the list, expected its end to be the file's");
    is_finished_ = true;
    return false;
  }
  if (!is_first_ && take() != ',') fail("expected a comma, or the end of the list");
  is_first_ = false;
  if (peek_behind_space() != '{') fail("expected an object");
  first_line_ = line_;
  int depth = 0;
  bool is_in_string = false;
  do {
    const int c = take();
    if (c < 0) fail("found the file's end within an object, expected the end of the list");
    record += static_cast<char>(c);
    if (record.size() > kMaxTextBytes)
      throw DataError(at_line(path_, first_line_,
                              "found an object of more than " + std::to_string(kMaxTextBytes) +
                                  " bytes, which is never skipped"));
    if (c == '"') {
      is_in_string = !is_in_string;
    } else if (is_in_string && c == '\\') {
      record += static_cast<char>(take());
    } else if (!is_in_string) {
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
    }
  } while (depth > 0);
  return true;
}

int JsonListReader::peek() {
  if (at_ == filled_) {
    at_ = 0;
    filled_ = source_->read(buffer_);
    if (filled_ == 0) return -1;
  }
  return static_cast<unsigned char>(buffer_[at_]);
}

int JsonListReader::take() {
  const int c = peek();
  if (c >= 0) ++at_;
  if (c == '\n') ++line_;
  return c;
}

int JsonListReader::peek_behind_space() {
  int c = peek();
  for (; c >= 0 && kWhiteSpace.find(static_cast<char>(c)) != kWhiteSpace.npos; c = peek()) take();
  return c;
}

void JsonListReader::fail(const std::string& what) const {
  throw DataError(at_line(path_, line_, what));
}

bool is_json_list(const std::filesystem::path& path) {
  const std::unique_ptr<ByteSource> source = ByteSource::open(path);
  std::vector<char> buffer(size_t{1} << 12);
  bool is_start = true;
  while (const size_t count = source->read(buffer)) {
    std::string_view text(buffer.data(), count);
    if (is_start && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    is_start = false;
    if (const size_t at = text.find_first_not_of(kWhiteSpace); at != text.npos)
      return text[at] == '[';
  }
  return false;
}

}  // namespace longshore::data
