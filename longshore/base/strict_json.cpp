#include "longshore/base/strict_json.h"

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"

namespace longshore {

void StrictJson::read(std::string_view text) {
  // The parser would take a zero byte for the end.
  if (const size_t at = text.find('\0'); at != std::string_view::npos)
    throw DataError("no valid JSON: found a zero at byte " + std::to_string(at));
  if (text.starts_with(kByteOrderMark))
    throw DataError("no valid JSON: found a byte order mark at its beginning");
  size_ = text.size();
  WideJson::sax_parse(text.begin(), text.end(), this);
}

bool StrictJson::number_float(number_float_t, const string_t& text) { refuse(excerpt(text)); }

bool StrictJson::parse_error(size_t byte, const std::string& token,
                             const nlohmann::json::exception& error) {
  std::string found = byte > size_ ? "the end" : in_quotes(token);
  if (token.ends_with("N") || token.ends_with("I"))
    found += ", as in NaN or Infinity, for which JSON has null";
  if (std::string_view(error.what()).find("surrogate") != std::string_view::npos)
    found += ", half of a surrogate pair, as text has it that was cut within a character";
  throw DataError("no valid JSON at byte " + std::to_string(byte) + ": found " + found);
}

void StrictJson::refuse(const std::string& found) const {
  throw DataError(expectation() + ", found " + found);
}

}  // namespace longshore
