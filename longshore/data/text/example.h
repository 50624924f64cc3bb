// An Example is a text, a pair, a conversation, a preference or a rollout that a model is tuned on,
// as a record of a data set holds it (JSON, jsonlines.org).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "longshore/data/images/image_source.h"
#include "longshore/data/text/conversation.h"
#include "longshore/data/text/rollout.h"

namespace longshore::data {

// All of it is trained on.
struct TextExample {
  std::string text;
};

// The completion is trained on. It may have images.
struct CompletionExample {
  std::string prompt, completion;
  std::vector<ImageSource> images = {};
};

// What the assistant says is trained on.
struct ChatExample {
  Conversation conversation;
  std::vector<ImageSource> images = {};  // one for each part that is an image, in their order
};

// A better and a worse answer to one prompt, each with the prompt, of which nothing is trained on;
// or one of the two.
struct PreferenceExample {
  using Answer = std::variant<CompletionExample, ChatExample>;
  std::optional<Answer> chosen, rejected;
};

// An answer that a policy has drawn.
struct RolloutExample {
  std::variant<DrawnTokens, CompletionExample, ChatExample> drawn;
  RolloutValues values;  // of the completion's tokens; of text, of those that are learnt
};

using Example =
    std::variant<TextExample, CompletionExample, ChatExample, PreferenceExample, RolloutExample>;

// What the examples of a file are: texts, pairs and conversations; preferences; or rollouts.
enum class ExampleKind : uint8_t { text, preference, rollout };

std::span<const ImageSource> images_of(const Example& example);

struct ExampleOptions {
  // Names in the place of those below: of the text, or the messages; or of prompt and completion.
  // Of preferences: chosen and rejected; or prompt, chosen and rejected; or prompt, completion and
  // label. Of rollouts: prompt, completion and advantages, where the first two may be of token ids.
  // Empty: those below.
  std::vector<std::string> columns = {};
  // Questions, instructions and pairs of them with answers become conversations, for a chat
  // template; without, one prompt and a completion, as Stanford Alpaca has them.
  bool has_template = false;
  ExampleKind kind = ExampleKind::text;  // which alone are read
};

struct ReadExample {
  // The columns that were recognised, which a file's examples have in common: "messages".
  std::string form;
  // Whether a chat template writes it, or would if there were one.
  bool takes_template = false;
  std::vector<std::string> beside;  // names of the numbers beside its tokens
  Example example;
};

// Reads one record by its columns:
//   text                              a text
//   prompt, completion                strings, or lists of messages, of which the completion's are
//                                     learnt; prefix and suffix are PaliGemma's names
//   messages or conversations         see read_conversation(); with `tools`, and with `system`,
//                                     which stands before them
//   instruction, input, output        Alpaca's; the input may be absent or empty; with `system`
//   question, answer
// and of preferences
//   chosen, rejected                  beside them the prompt, or Intel Orca's `question` and
//                                     `system`; see read_preference()
//   prompt, completion, label         one answer, and whether it is good: see read_label()
// and of rollouts
//   prompt_ids, completion_ids, advantages   token ids; beside them completion_mask
//   prompt, completion, advantages    as pairs are
// each with old_log_probs and reference_log_probs, or without: see rollout.h
// which have no images. Images, under the column image or images of pairs and messages, are a
// string or a list of strings: see parse_image_source(). Nulls are no columns, and others are
// ignored. Throws a DataError, without file and line, on what is no JSON, not exactly one of these,
// or empty where something is to be trained on.
ReadExample read_example(std::string_view record, const ExampleOptions& options = {});

// The columns whose values read_example() looks at.
std::vector<std::string> columns_read(const ExampleOptions& options = {});

}  // namespace longshore::data
