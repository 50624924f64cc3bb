// Any line as an example: refused with a DataError, or with something to learn, in UTF-8.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/utf8.h"
#include "longshore/data/text/example.h"

namespace {

using namespace longshore::data;

void require(bool condition) {
  if (!condition) std::abort();
}

bool is_utf8(std::string_view text) { return longshore::valid_utf8_prefix(text) == text.size(); }

struct Check {
  void operator()(const TextExample& example) const {
    require(!example.text.empty() && is_utf8(example.text));
  }
  void operator()(const CompletionExample& example) const {
    require(is_utf8(example.prompt) && !example.completion.empty() && is_utf8(example.completion));
    check(example.images);
  }
  void operator()(const ChatExample& example) const {
    const longshore::data::Conversation& conversation = example.conversation;
    require(conversation.messages.size() == conversation.carries_loss.size());
    bool has_assistant = false;
    for (const auto& message : conversation.messages) {
      require(message["role"].is_string());
      has_assistant |= message["role"] == longshore::data::kAssistant;
      require(message.contains("content") || message.contains("tool_calls"));
    }
    require(has_assistant);
    require(longshore::data::image_count(conversation) == std::ssize(example.images));
    check(example.images);
  }
  void operator()(const PreferenceExample& example) const {
    require(example.chosen || example.rejected);
    for (const auto& answer : {example.chosen, example.rejected})
      if (answer) std::visit(*this, *answer);
  }
  void operator()(const RolloutExample& example) const {
    const RolloutValues& values = example.values;
    require(!values.advantages.empty());
    for (const auto* numbers :
         {&values.advantages, &values.old_log_probs, &values.reference_log_probs})
      for (const float number : *numbers) require(std::isfinite(number));
    std::visit(*this, example.drawn);
  }
  void operator()(const DrawnTokens& tokens) const {
    require(!tokens.prompt.empty() && !tokens.completion.empty());
    require(tokens.completion.size() == tokens.completion_mask.size());
    for (const auto* ids : {&tokens.prompt, &tokens.completion})
      for (const int32_t id : *ids) require(id >= 0);
  }

 private:
  static void check(const std::vector<ImageSource>& images) {
    for (const ImageSource& image : images)
      require(image.kind == ImageSource::Kind::embedded
                  ? image.path.empty()
                  : !image.path.empty() && is_utf8(image.path));
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view record(reinterpret_cast<const char*>(data), size);
  for (const ExampleKind kind : {ExampleKind::text, ExampleKind::preference, ExampleKind::rollout})
    for (const bool has_template : {false, true}) {
      const ExampleOptions options{.has_template = has_template, .kind = kind};
      try {
        const Example example = read_example(record, options).example;
        require(std::holds_alternative<PreferenceExample>(example) ==
                (kind == ExampleKind::preference));
        require(std::holds_alternative<RolloutExample>(example) == (kind == ExampleKind::rollout));
        std::visit(Check{}, example);
      } catch (const longshore::DataError& error) {
        // What a message quotes of the line is printable.
        require(std::string_view(error.what()).find('\n') == std::string_view::npos);
      }
    }
  return 0;
}
