#include "data/strict_json.h"

#include "base/error.h"

namespace longshore::data {

void StrictJson::read(std::string_view text) {
  // The parser would take a zero byte for the end.
  if (const size_t at = text.find('\0'); at != std::string_view::npos)
    throw DataError("no valid JSON: found a zero at byte " + std::to_string(at));
  size_ = text.size();
  WideJson::sax_parse(text.begin(), text.end(), this);
}

bool StrictJson::parse_error(size_t byte, const std::string& token,
                             const nlohmann::json::exception&) {
  std::string found = byte > size_ ? "the end" : json_quoted(token);
  if (token.ends_with("N") || token.ends_with("I"))
    found += ", as in NaN or Infinity, for which JSON has null";
  throw DataError("no valid JSON at byte " + std::to_string(byte) + ": found " + found);
}

void StrictJson::refuse(const std::string& found) const {
  throw DataError(expectation() + ", found " + found);
}

std::string json_quoted(std::string_view text) {
  constexpr size_t kMaxBytes = 120;
  constexpr int kOneLine = -1;
  constexpr bool kAscii = true;
  const bool is_long = text.size() > kMaxBytes;
  const nlohmann::json value = std::string(text.substr(0, kMaxBytes)) + (is_long ? "..." : "");
  return value.dump(kOneLine, ' ', kAscii, nlohmann::json::error_handler_t::replace);
}

}  // namespace longshore::data
