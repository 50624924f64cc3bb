// Any text as a tiktoken file or a tekken.json: refused with a DataError, or a tokenizer.json that
// is read. "@" stands for a tekken.json's tokens of the 256 bytes, for which inputs are too short.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "longshore/base/error.h"
#include "longshore/data/tokenizers/json_tokenizer.h"
#include "longshore/data/tokenizers/tekken.h"
#include "longshore/data/tokenizers/tiktoken.h"

namespace {

std::string tokens_of_bytes() {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens += std::string(byte == 0 ? "" : ",") + R"({"rank":)" + std::to_string(byte) +
              R"(,"token_bytes":")" + kDigits[byte >> 2] + kDigits[(byte & 3) << 4] + R"(=="})";
  return tokens;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longshore::data;
  static const std::string tokens = tokens_of_bytes();
  std::string input(reinterpret_cast<const char*>(data), size);
  if (const size_t at = input.find('@'); at != input.npos) input.replace(at, 1, tokens);
  try {
    if (is_tiktoken(input)) tokenizer_json_of_tiktoken(input);
    if (is_tekken(input))
      make_json_tokenizer(tokenizer_json_of_tekken(input))->encode("caf\xc3\xa9 <a>  12 the\n");
  } catch (const longshore::DataError&) {
  }
  return 0;
}
