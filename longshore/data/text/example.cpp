#include "longshore/data/text/example.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/base/utf8.h"
#include "longshore/data/rows/batch.h"
#include "longshore/data/text/preference_answers.h"
#include "longshore/data/text/record_columns.h"

namespace longshore::data {
namespace {

using nlohmann::ordered_json;

enum class Layout {
  text,
  pair,
  affixes,
  messages,
  conversations,
  instruction,
  question,
  preference,           // of which the first of three is the prompt
  question_preference,  // the question
  label,
  drawn_tokens,
  drawn_text
};

struct LayoutColumns {
  Layout layout;
  std::vector<std::string> names;
};

// Each has all of its columns.
const std::array<LayoutColumns, 7>& layouts() {
  static const std::array<LayoutColumns, 7> all = {{
      {Layout::text, {"text"}},
      {Layout::pair, {"prompt", "completion"}},
      {Layout::affixes, {"prefix", "suffix"}},
      {Layout::messages, {"messages"}},
      {Layout::conversations, {"conversations"}},
      {Layout::instruction, {"instruction", "output"}},
      {Layout::question, {"question", "answer"}},
  }};
  return all;
}

constexpr const char* kForms =
    "text, prompt and completion, messages, instruction and output, or question and answer";

// Of preferences; a record may have several of them, of which the first counts.
const std::array<LayoutColumns, 4>& preference_layouts() {
  static const std::array<LayoutColumns, 4> all = {{
      {Layout::preference, {"prompt", "chosen", "rejected"}},
      {Layout::question_preference, {"question", "chosen", "rejected"}},
      {Layout::preference, {"chosen", "rejected"}},
      {Layout::label, {"prompt", "completion", "label"}},
  }};
  return all;
}

constexpr const char* kPreferenceForms =
    "chosen and rejected, with a prompt or without, or prompt, completion and label";

const std::array<LayoutColumns, 2>& rollout_layouts() {
  static const std::array<LayoutColumns, 2> all = {{
      {Layout::drawn_tokens, {"prompt_ids", "completion_ids", kAdvantages}},
      {Layout::drawn_text, {"prompt", "completion", kAdvantages}},
  }};
  return all;
}

constexpr const char* kRolloutForms =
    "prompt_ids, completion_ids and advantages, or prompt, completion and advantages";
constexpr const char* kCompletionMask = "completion_mask";

// "prompt, chosen and rejected"
std::string form_of(std::vector<std::string> names) {
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : join(names) + " and " + last;
}

// A label beside prompt and completion is one column among others, but of preferences; so are
// advantages, but of rollouts.
const std::vector<std::string>& known_columns(ExampleKind kind) {
  auto known = [](std::vector<std::string> more) {
    std::vector<std::string> names{"image", "images", "tools", "system", "input"};
    for (const LayoutColumns& layout : layouts())
      names.insert(names.end(), layout.names.begin(), layout.names.end());
    names.insert(names.end(), {"chosen", "rejected"});
    names.insert(names.end(), more.begin(), more.end());
    return names;
  };
  static const std::vector<std::string> of_texts = known({}), of_preferences = known({"label"}),
                                        of_rollouts = known({kAdvantages, "prompt_ids",
                                                             "completion_ids", kCompletionMask,
                                                             kOldLogProbs, kReferenceLogProbs});
  return kind == ExampleKind::text         ? of_texts
         : kind == ExampleKind::preference ? of_preferences
                                           : of_rollouts;
}

void expect_columns(const std::vector<std::string>& names, const RecordColumns& record) {
  for (const std::string& name : names)
    if (!record.has(name))
      throw DataError("expected " + form_of(names) + ", found no " + in_quotes(name) +
                      record.nearest_to(name));
}

const LayoutColumns& preference_layout_of(const RecordColumns& record) {
  for (const LayoutColumns& layout : preference_layouts())
    if (record.has_all(layout.names)) {
      if (layout.layout != Layout::label && record.has("completion") && record.has("label"))
        throw DataError("expected one of " + std::string(kPreferenceForms) + "; found " +
                        record.found() + "; nearest: train_data_columns=chosen,rejected, which " +
                        "names what to read");
      return layout;
    }
  if (record.has("chosen") || record.has("rejected"))
    expect_columns({"chosen", "rejected"}, record);
  if (record.has("label")) expect_columns({"prompt", "completion", "label"}, record);
  if (record.found().empty()) record.refuse(kPreferenceForms);
  throw DataError("expected preferences: " + std::string(kPreferenceForms) + "; found " +
                  record.found() + "; nearest: objective: sft (tokenize: no --preference)");
}

const LayoutColumns& rollout_layout_of(const RecordColumns& record) {
  for (const LayoutColumns& layout : rollout_layouts())
    if (record.has(layout.names[0]) || record.has(layout.names[1])) {
      expect_columns(layout.names, record);
      return layout;
    }
  if (record.found().empty()) record.refuse(kRolloutForms);
  throw DataError("expected rollouts: " + std::string(kRolloutForms) + "; found " + record.found() +
                  "; nearest: objective: sft (tokenize: no --rollouts)");
}

// The one whose columns are there.
const LayoutColumns& layout_of(const RecordColumns& record) {
  std::vector<const LayoutColumns*> found;
  for (const LayoutColumns& layout : layouts())
    if (std::ranges::any_of(layout.names, [&](const auto& name) { return record.has(name); }))
      found.push_back(&layout);
  // A column of another may stand by: a question beside messages is one among others.
  std::vector<const LayoutColumns*> whole;
  std::ranges::copy_if(found, std::back_inserter(whole),
                       [&](const LayoutColumns* layout) { return record.has_all(layout->names); });
  if (whole.empty() && record.has("chosen") && record.has("rejected"))
    throw DataError("expected " + std::string(kForms) +
                    "; found chosen and rejected, of which one is to be preferred; nearest: "
                    "objective: dpo (tokenize: --preference)");
  if (found.empty()) record.refuse(kForms);
  if (whole.size() > 1 || (whole.empty() && found.size() > 1))
    throw DataError("expected one of " + std::string(kForms) + "; found " + record.found() +
                    "; nearest: train_data_columns=" +
                    join((whole.empty() ? found : whole).back()->names, ",") +
                    ", which names what to read");
  if (whole.empty()) expect_columns(found.front()->names, record);
  return *whole.front();
}

LayoutColumns preference_layout_named(const std::vector<std::string>& columns,
                                      const RecordColumns& record) {
  for (const LayoutColumns& layout : preference_layouts())
    if (layout.names == columns) return layout;
  if (columns.size() < 2)
    throw DataError(
        "expected two or three columns of preferences, chosen and rejected, or prompt, "
        "chosen and rejected, found that train_data_columns names " +
        in_quotes(columns[0]));
  const ordered_json& last = record[columns.back()];
  const bool is_answer = last.is_string() || last.is_array();
  return {columns.size() == 2 || is_answer ? Layout::preference : Layout::label, columns};
}

LayoutColumns rollout_layout_named(const std::vector<std::string>& columns,
                                   const RecordColumns& record) {
  if (columns.size() != 3)
    throw DataError(
        "expected three columns of rollouts, prompt, completion and advantages, found that "
        "train_data_columns names " +
        plural(std::ssize(columns), "column"));
  const ordered_json& completion = record[columns[1]];
  const bool is_ids = completion.is_array() && (completion.empty() || completion[0].is_number());
  return {is_ids ? Layout::drawn_tokens : Layout::drawn_text, columns};
}

// What train_data_columns names, by what is there.
LayoutColumns layout_named(const std::vector<std::string>& columns, const RecordColumns& record,
                           ExampleKind kind) {
  for (const std::string& name : columns)
    if (!record.has(name))
      throw DataError("expected the column " + in_quotes(name) +
                      ", which train_data_columns names, found none" + record.nearest_to(name));
  if (kind == ExampleKind::preference) return preference_layout_named(columns, record);
  if (kind == ExampleKind::rollout) return rollout_layout_named(columns, record);
  for (const LayoutColumns& layout : layouts())
    if (layout.names == columns) return layout;
  if (columns.size() == 2) return {Layout::pair, columns};
  const bool is_list = record[columns[0]].is_array();
  return {is_list ? Layout::messages : Layout::text, columns};
}

std::vector<ImageSource> images_in(const RecordColumns& record) {
  if (record.has("image") && record.has("images"))
    throw DataError("expected one of image or images, found both");
  std::vector<ImageSource> images;
  auto add = [&](const ordered_json& value, const std::string& place, const char* expected) {
    if (!value.is_string())
      throw DataError(place + ": expected " + expected + ", found " + kind_of(value));
    try {
      images.push_back(parse_image_source(value.get_ref<const std::string&>()));
    } catch (const DataError& error) {
      throw DataError(place + ": " + error.what());
    }
  };
  for (const char* name : {"image", "images"}) {
    if (!record.has(name)) continue;
    const ordered_json& value = record[name];
    if (!value.is_array()) {
      add(value, name, "a string or a list of strings, paths or base64");
      continue;
    }
    for (size_t i = 0; i < value.size(); ++i)
      add(value[i], std::string(name) + "[" + std::to_string(i) + "]",
          "a string, a path or base64");
  }
  return images;
}

[[noreturn]] void refuse_images(int64_t images) {
  throw DataError("found " + plural(images, "image") +
                  ", expected none: answers that are rated are text alone");
}

ordered_json message(const char* role, std::string content) {
  return {{"role", role}, {"content", std::move(content)}};
}

// Among the messages from `first` on.
void expect_assistant(const Conversation& conversation, const std::string& name, size_t first = 0) {
  constexpr size_t kMaxShown = 4;
  std::vector<std::string> roles;
  for (size_t i = first; i < conversation.messages.size(); ++i) {
    const auto& each = conversation.messages[i];
    if (each["role"] == kAssistant) return;
    if (const std::string role = in_quotes(each["role"].get<std::string>());
        roles.size() < kMaxShown && std::ranges::find(roles, role) == roles.end())
      roles.push_back(role);
  }
  throw DataError(name + ": found none of the assistant" +
                  (roles.empty() ? "" : " among those of " + join(roles)) +
                  ", expected one to learn");
}

Example chat(const std::string& name, RecordColumns& record) {
  ordered_json messages = record.take(name);
  put_system_before(record.text("system"), messages);
  ChatExample example;
  example.conversation = read_conversation(std::move(messages), record.take("tools"), name,
                                           images_in(record), example.images);
  expect_assistant(example.conversation, name);
  return example;
}

// Lists of messages, of which the completion's carry loss.
Example chat_of_pair(const std::vector<std::string>& names, RecordColumns& record) {
  for (const std::string& name : names)
    if (!record[name].is_array())
      throw DataError(name + ": expected a list of messages, as " +
                      names[&name == &names[0] ? 1 : 0] + " is, found " + kind_of(record[name]));
  ordered_json messages = record.take(names[0]);
  const size_t asked = messages.size();
  for (auto& each : record.take(names[1])) messages.push_back(std::move(each));
  ChatExample example;
  example.conversation = read_conversation(std::move(messages), record.take("tools"),
                                           form_of(names), images_in(record), example.images);
  expect_assistant(example.conversation, form_of(names));
  std::ranges::fill_n(example.conversation.carries_loss.begin(), static_cast<ptrdiff_t>(asked), 0);
  return example;
}

Example pair(const std::vector<std::string>& names, RecordColumns& record) {
  if (record[names[0]].is_array() || record[names[1]].is_array())
    return chat_of_pair(names, record);
  return CompletionExample{record.text(names[0]), record.trained(names[1]), images_in(record)};
}

// As Stanford Alpaca asks.
std::string alpaca_prompt(const std::string& system, const std::string& instruction,
                          const std::string& input) {
  return system + (system.empty() ? "" : "\n\n") + "Below is an instruction that describes a task" +
         std::string(input.empty() ? "" : ", paired with an input that provides further context") +
         ". Write a response that appropriately completes the request.\n\n### Instruction:\n" +
         instruction + (input.empty() ? "" : "\n\n### Input:\n" + input) + "\n\n### Response:\n";
}

Example answered(const std::string& question, const std::string& answer,
                 const RecordColumns& record, bool has_template) {
  const std::string input = question == "instruction" ? record.text("input") : "";
  std::string asked = record.text(question), said = record.trained(answer);
  if (!has_template)
    return CompletionExample{alpaca_prompt(record.text("system"), asked, input), std::move(said)};
  if (!input.empty()) asked += "\n" + input;
  ordered_json messages = ordered_json::array();
  messages.push_back(message("user", std::move(asked)));
  messages.push_back(message(kAssistant, std::move(said)));
  put_system_before(record.text("system"), messages);
  ChatExample example;
  example.conversation =
      read_conversation(std::move(messages), nullptr, "messages", {}, example.images);
  return example;
}

// One answer with its prompt, both strings or both lists of messages.
PreferenceExample::Answer preference_answer(const std::string& name, const ordered_json& prompt,
                                            ordered_json answer, const ordered_json& tools) {
  if (answer.is_string())
    return CompletionExample{prompt.get<std::string>(), answer.get<std::string>()};
  ordered_json messages = prompt;
  for (auto& each : answer) messages.push_back(std::move(each));
  ChatExample example;
  example.conversation = read_conversation(std::move(messages), tools, name, {}, example.images);
  if (!example.images.empty()) refuse_images(std::ssize(example.images));
  expect_assistant(example.conversation, name, prompt.size());
  std::ranges::fill_n(example.conversation.carries_loss.begin(), std::ssize(prompt), 0);
  return example;
}

// `prompt` is null where the answers begin with it; `names` end with those of the answers.
Example preference(ordered_json prompt, const std::vector<std::string>& names,
                   RecordColumns& record) {
  const std::string &chosen = names[names.size() - 2], &rejected = names.back();
  ordered_json better = record.take(chosen), worse = record.take(rejected);
  PreferenceAnswers answers = read_preference(
      {std::move(prompt), std::move(better), std::move(worse)}, {names.front(), chosen, rejected});
  put_system_before(record.text("system"), answers.prompt);
  const ordered_json tools = record.take("tools");
  const std::string before = names.size() == 3 ? names.front() + " and " : "";
  auto with_prompt = [&](const std::string& name, ordered_json answer) {
    return preference_answer(before + name, answers.prompt, std::move(answer), tools);
  };
  return PreferenceExample{with_prompt(chosen, std::move(answers.chosen)),
                           with_prompt(rejected, std::move(answers.rejected))};
}

// Intel Orca's, asked as other questions are.
ordered_json question(const std::string& name, const RecordColumns& record, bool has_template) {
  std::string asked = record.text(name);
  if (!has_template) return alpaca_prompt(record.text("system"), asked, "");
  return ordered_json::array({message("user", std::move(asked))});
}

// One answer, good or bad.
Example labelled(const std::vector<std::string>& names, RecordColumns& record) {
  const bool is_good = read_label(record[names[2]], names[2]);
  Example answer = pair({names[0], names[1]}, record);
  PreferenceExample example;
  std::optional<PreferenceExample::Answer>& side = is_good ? example.chosen : example.rejected;
  if (auto* completion = std::get_if<CompletionExample>(&answer)) {
    side = std::move(*completion);
  } else {
    side = std::get<ChatExample>(std::move(answer));
    if (const auto images = std::ssize(std::get<ChatExample>(*side).images)) refuse_images(images);
  }
  return example;
}

// Advantages, and what stands beside them.
RolloutValues rollout_values(const std::string& advantages, RecordColumns& record) {
  const ordered_json one_or_more = record.take(advantages);
  RolloutValues values;
  values.advantages = read_advantages(one_or_more, advantages);
  if (record.has(kOldLogProbs))
    values.old_log_probs = read_log_probs(record[kOldLogProbs], kOldLogProbs);
  if (record.has(kReferenceLogProbs))
    values.reference_log_probs = read_log_probs(record[kReferenceLogProbs], kReferenceLogProbs);
  return values;
}

Example drawn_tokens(const std::vector<std::string>& names, RecordColumns& record) {
  DrawnTokens tokens{.prompt = read_token_ids(record[names[0]], names[0]),
                     .completion = read_token_ids(record[names[1]], names[1]),
                     .completion_mask = {}};
  if (record.has(kCompletionMask))
    tokens.completion_mask = read_mask(record[kCompletionMask], kCompletionMask);
  else
    tokens.completion_mask.assign(tokens.completion.size(), 1);
  if (tokens.completion_mask.size() != tokens.completion.size())
    throw DataError(kCompletionMask + std::string(": found ") +
                    plural(std::ssize(tokens.completion_mask), "number") + ", expected " +
                    std::to_string(tokens.completion.size()) + ", one for each of " + names[1]);
  if (tokens.prompt.empty() || tokens.completion.empty())
    throw DataError(names[tokens.prompt.empty() ? 0 : 1] +
                    ": found nothing, expected the tokens that were drawn, behind those of a "
                    "prompt");
  return RolloutExample{std::move(tokens), rollout_values(names[2], record)};
}

Example drawn_text(const std::vector<std::string>& names, RecordColumns& record) {
  if (record.has(kCompletionMask))
    throw DataError(kCompletionMask +
                    std::string(": found beside text, expected it beside prompt_ids and "
                                "completion_ids alone"));
  RolloutValues values = rollout_values(names[2], record);
  Example answer = pair({names[0], names[1]}, record);
  if (auto* completion = std::get_if<CompletionExample>(&answer))
    return RolloutExample{std::move(*completion), std::move(values)};
  return RolloutExample{std::get<ChatExample>(std::move(answer)), std::move(values)};
}

Example example_of(const LayoutColumns& layout, RecordColumns& record, bool has_template) {
  const std::vector<std::string>& names = layout.names;
  switch (layout.layout) {
    case Layout::text: {
      if (const auto images = std::ssize(images_in(record)); images > 0)
        throw DataError("found " + plural(images, "image") +
                        " with text, expected prompt and completion, or messages, with images");
      return TextExample{record.trained(names[0])};
    }
    case Layout::pair:
      return pair(names, record);
    case Layout::affixes:
      return CompletionExample{record.text(names[0]), record.trained(names[1]), images_in(record)};
    case Layout::messages:
    case Layout::conversations:
      return chat(names[0], record);
    case Layout::instruction:
    case Layout::question:
      return answered(names[0], names[1], record, has_template);
    case Layout::preference:
      return preference(names.size() == 3 ? record.take(names[0]) : ordered_json(), names, record);
    case Layout::question_preference:
      return preference(question(names[0], record, has_template), names, record);
    case Layout::label:
      return labelled(names, record);
    case Layout::drawn_tokens:
      return drawn_tokens(names, record);
    case Layout::drawn_text:
      return drawn_text(names, record);
  }
  throw InternalError("no such layout");
}

bool has_chat(const PreferenceExample& example) {
  const auto& answer = example.chosen ? example.chosen : example.rejected;
  return std::holds_alternative<ChatExample>(*answer);
}

bool has_chat(const Example& example) {
  if (const auto* preference = std::get_if<PreferenceExample>(&example))
    return has_chat(*preference);
  if (const auto* rollout = std::get_if<RolloutExample>(&example))
    return std::holds_alternative<ChatExample>(rollout->drawn);
  return std::holds_alternative<ChatExample>(example);
}

LayoutColumns layout_in(const RecordColumns& record, const ExampleOptions& options) {
  if (!options.columns.empty()) return layout_named(options.columns, record, options.kind);
  switch (options.kind) {
    case ExampleKind::text:
      return layout_of(record);
    case ExampleKind::preference:
      return preference_layout_of(record);
    case ExampleKind::rollout:
      return rollout_layout_of(record);
  }
  throw InternalError("no such kind of example");
}

}  // namespace

std::span<const ImageSource> images_of(const Example& example) {
  if (const auto* pair = std::get_if<CompletionExample>(&example)) return pair->images;
  if (const auto* chat = std::get_if<ChatExample>(&example)) return chat->images;
  return {};
}

ReadExample read_example(std::string_view text, const ExampleOptions& options) {
  if (const std::string fault = utf8_fault(text); !fault.empty()) throw DataError(fault);
  std::optional<RecordColumns> record;
  try {
    record.emplace(text, known_columns(options.kind), options.columns);
  } catch (const DataError& error) {
    // As a file is that was written for people.
    const size_t last = text.find_last_not_of(" \t\r\n");
    if (last != text.npos && last == text.find_first_of("{["))
      throw DataError(std::string(error.what()) + ", where a line has a whole example");
    throw;
  }
  const LayoutColumns layout = layout_in(*record, options);
  if (options.kind != ExampleKind::text)
    if (const auto images = std::ssize(images_in(*record))) refuse_images(images);
  Example example = example_of(layout, *record, options.has_template);
  const bool takes_template = layout.layout == Layout::instruction ||
                              layout.layout == Layout::question ||
                              layout.layout == Layout::question_preference || has_chat(example);
  std::vector<std::string> names = layout.names, beside;
  if (const auto* rollout = std::get_if<RolloutExample>(&example)) {
    beside = names_beside_tokens(rollout->values);
    for (const char* name : {kOldLogProbs, kReferenceLogProbs, kCompletionMask})
      if (record->has(name)) names.push_back(name);
  }
  return {form_of(std::move(names)), takes_template, std::move(beside), std::move(example)};
}

std::vector<std::string> columns_read(const ExampleOptions& options) {
  std::vector<std::string> columns = known_columns(options.kind);
  columns.insert(columns.end(), options.columns.begin(), options.columns.end());
  return columns;
}

}  // namespace longshore::data
