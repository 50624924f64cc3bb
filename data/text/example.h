// An Example is a text, a pair or a conversation that a model is tuned on, as a line of JSON
// (jsonlines.org) holds it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/images/image_source.h"
#include "data/text/chat_template.h"

namespace longshore::data {

// {"text": "..."}: all of it is trained on.
struct TextExample {
  std::string text;
};

// {"prompt": "...", "completion": "..."}, or the same with PaliGemma's names, prefix and suffix:
// the completion is trained on. It may have images.
struct CompletionExample {
  std::string prompt, completion;
  std::vector<ImageSource> images = {};
};

// {"messages": [{"role": "user", "content": "..."}, ...]}: what the assistant says is trained on.
// Content may be a list of parts: {"type": "text", "text": "..."}, {"type": "image"}, which takes
// the line's next image, and {"type": "image", "image": "..."} with its own ("path" and "url" are
// other names of that key).
struct ChatExample {
  std::vector<ChatMessage> messages;
  std::vector<ImageSource> images = {};  // one for each part that is an image, in their order
};

using Example = std::variant<TextExample, CompletionExample, ChatExample>;

// The keys of its alternative, as messages list them: "text", "prompt and completion", "messages".
// Whether there are images makes no difference.
std::string form_of(const Example& example);

std::span<const ImageSource> images_of(const Example& example);

// Reads one line. Its images, under the key "image" or "images", are a string or a list of strings:
// see parse_image_source(). Other keys of the object are ignored; those of a message are not, since
// they could change what it means. Throws a DataError, without file and line, on what is no JSON,
// not exactly one of the three forms, or empty where something is to be trained on.
Example parse_example(std::string_view line);

}  // namespace longshore::data
