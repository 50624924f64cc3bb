// An Example is a text, a pair or a conversation that a model is tuned on, as a line of JSON
// (jsonlines.org) holds it.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/text/chat_template.h"

namespace longshore::data {

// {"text": "..."}: all of it is trained on.
struct TextExample {
  std::string text;
};

// {"prompt": "...", "completion": "..."}: the completion is trained on.
struct CompletionExample {
  std::string prompt, completion;
};

// {"messages": [{"role": "user", "content": "..."}, ...]}: what the assistant says is trained on.
struct ChatExample {
  std::vector<ChatMessage> messages;
};

using Example = std::variant<TextExample, CompletionExample, ChatExample>;

// The keys of its alternative, as messages list them: "text", "prompt and completion", "messages".
std::string form_of(const Example& example);

// Reads one line. Other keys of the object are ignored; those of a message are not, since they
// could change what it means. Throws a DataError, without file and line, on what is no JSON, not
// exactly one of the three forms, or empty where something is to be trained on.
Example parse_example(std::string_view line);

}  // namespace longshore::data
