// Any line as a prompt: refused with a DataError, or with something to go on from, in UTF-8.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "longshore/base/error.h"
#include "longshore/base/utf8.h"
#include "longshore/data/text/prompt_record.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longshore::data;
  try {
    const PromptRecord record = read_prompt({reinterpret_cast<const char*>(data), size});
    if (const auto* conversation = std::get_if<Conversation>(&record.prompt)) {
      require(!conversation->messages.empty());
      require(conversation->messages.size() == conversation->carries_loss.size());
      require(conversation->messages.back()["role"] != kAssistant);
    }
    const std::string text = record.json().dump();  // throws what is no UTF-8
    require(longshore::valid_utf8_prefix(text) == text.size());
  } catch (const longshore::DataError& error) {
    // What a message quotes of the line is printable.
    require(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
