// Any text as a template: refused with a DataError, or rendered within its limits as valid UTF-8,
// with spans that lie within it. A zero byte ends the template; JSON of its variables may follow.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/utf8.h"
#include "longshore/data/jinja/jinja_template.h"

namespace {

constexpr std::string_view kConversation = R"({
  "messages": [
    {"role": "system", "content": " Be kind.\n"},
    {"role": "user", "content": [{"type": "text", "text": "h\u00e9"}, {"type": "image"}]},
    {"role": "assistant", "content": null, "reasoning_content": "1 < 2",
     "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"x": [1, -2.5, true]}}}]},
    {"role": "tool", "content": "{\"t\": 3}"}
  ],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {}}}}],
  "add_generation_prompt": true, "bos_token": "<s>", "l": [3, 1, 2], "s": "a, b"
})";

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longshore::data;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  try {
    const JinjaTemplate jinja(input.substr(0, end));
    const auto variables =
        longshore::ordered_json_tree(end == input.npos ? kConversation : input.substr(end + 1));
    if (!variables.is_object()) return 0;
    const JinjaText made = jinja.render(variables, std::tm{});
    require(longshore::valid_utf8_prefix(made.text) == made.text.size());
    for (const JinjaSpan& span : made.generated)
      require(span.begin <= span.end && span.end <= made.text.size());
  } catch (const longshore::DataError&) {
  }
  return 0;
}
