#include "longshore/data/text/document_reader.h"

#include "longshore/base/error.h"
#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {

bool DocumentReader::next(std::string& document) {
  auto fail = [&](const std::string& what) {
    throw DataError(at_line(lines_.path(), lines_.line_number(), what));
  };
  document.clear();
  while (lines_.next(line_)) {
    if (const std::string fault = utf8_fault(line_); !fault.empty()) fail(fault);
    if (is_blank(line_)) {
      if (!document.empty()) return true;
      continue;
    }
    if (!document.empty()) document += '\n';
    document += line_;
    if (document.size() > kMaxTextBytes)
      fail("document of more than " + std::to_string(kMaxTextBytes) +
           " bytes: no blank line so far. Separate documents by blank lines.");
  }
  return !document.empty();
}

}  // namespace longshore::data
