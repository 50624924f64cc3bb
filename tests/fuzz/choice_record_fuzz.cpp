// Any line as a question of multiple choice: refused with a DataError, or with choices of some
// text, of which one is the answer.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "longshore/base/error.h"
#include "longshore/base/utf8.h"
#include "longshore/data/text/choice_record.h"
#include "longshore/data/tokenizers/white_space.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

bool is_utf8(std::string_view text) { return longshore::valid_utf8_prefix(text) == text.size(); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longshore::data;
  try {
    const ChoiceRecord record = read_choices({reinterpret_cast<const char*>(data), size});
    require(is_utf8(record.prompt));
    require(record.choices.size() >= 2 && record.choices.size() <= kMostChoices);
    require(record.answer < record.choices.size());
    for (const std::string& choice : record.choices)
      require(is_utf8(choice) && !is_white_space(choice));
  } catch (const longshore::DataError& error) {
    // What a message quotes of the line is printable.
    require(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
