// Any text as a tokenizer.json: refused with a DataError, or a tokenizer that takes any text, whose
// ids are within its vocabulary and decode to UTF-8. A zero byte ends the file; the text follows.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "longshore/base/error.h"
#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/json_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longshore::data;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  try {
    const auto tokenizer = make_json_tokenizer(input.substr(0, end));
    const std::string_view text =
        end == input.npos ? "caf\xc3\xa9 <a>  12 the\n" : input.substr(end);
    const auto ids = tokenizer->encode(text);
    for (int32_t id : ids)
      if (id < 0 || id >= tokenizer->vocab_size()) std::abort();
    for (SpecialTokens special : {SpecialTokens::keep, SpecialTokens::skip}) {
      const std::string decoded = tokenizer->decode(ids, special);
      if (longshore::valid_utf8_prefix(decoded) != decoded.size()) std::abort();
    }
  } catch (const longshore::DataError&) {
  }
  return 0;
}
