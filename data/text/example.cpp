#include "data/text/example.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json_tree.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "base/text.h"
#include "base/utf8.h"

namespace longshore::data {
namespace {

using nlohmann::ordered_json;

enum class Layout { text, pair, affixes, messages, conversations, instruction, question };

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

std::string form_of(const std::vector<std::string>& names) { return join(names, " and "); }

const std::vector<std::string>& known_columns() {
  static const std::vector<std::string> known = [] {
    std::vector<std::string> names{"image", "images", "tools", "system", "input"};
    for (const LayoutColumns& layout : layouts())
      names.insert(names.end(), layout.names.begin(), layout.names.end());
    return names;
  }();
  return known;
}

bool is_known(const std::string& name) {
  return std::ranges::find(known_columns(), name) != known_columns().end();
}

// The columns of a record that are known, without nulls.
class Record {
 public:
  Record(std::string_view text, const ExampleOptions& options) {
    constexpr size_t kMaxUnknown = 8;
    const std::vector<std::string>& given = options.columns;
    columns_ = ordered_json_object(text, [&](const std::string& name) {
      const bool wants = is_known(name) || std::ranges::find(given, name) != given.end();
      if (!wants && unknown_.size() < kMaxUnknown) unknown_.push_back(name);
      return wants;
    });
    for (auto column = columns_.begin(); column != columns_.end();)
      if (column->is_null()) {
        has_nulls_ = true;
        column = columns_.erase(column);
      } else {
        ++column;
      }
  }

  bool has(const std::string& name) const { return columns_.contains(name); }

  const ordered_json& operator[](const std::string& name) const { return columns_[name]; }

  // Null where there is none.
  ordered_json take(const std::string& name) {
    const auto found = columns_.find(name);
    return found == columns_.end() ? ordered_json() : std::move(*found);
  }

  std::string text(const std::string& name) const {
    const ordered_json value = columns_.value(name, ordered_json(""));
    if (!value.is_string()) throw DataError(name + ": expected a string, found " + kind_of(value));
    return value.get<std::string>();
  }

  std::string trained(const std::string& name) const {
    std::string value = text(name);
    if (value.empty()) throw DataError(name + ": found nothing, expected text to learn");
    return value;
  }

  // "messages, text": those that make a layout.
  std::string found() const {
    std::set<std::string> names;
    for (const auto& column : columns_.items()) names.insert(column.key());
    return join(std::vector<std::string>(names.begin(), names.end()));
  }

  std::string nearest_to(const std::string& name) const {
    const std::string closest = nearest(name, unknown_);
    return nearest_help(closest.empty() ? "" : in_quotes(closest));
  }

  [[noreturn]] void refuse() const {
    std::string found_names;
    for (const std::string& name : unknown_)
      found_names += (found_names.empty() ? "the columns " : ", ") + in_quotes(name);
    std::string closest;
    for (const std::string& name : unknown_)
      if (closest.empty()) closest = nearest(name, known_columns());
    const bool may_be_named = closest.empty() && !unknown_.empty();
    throw DataError(
        std::string("expected ") + kForms + "; found " +
        (!found_names.empty() ? found_names
         : has_nulls_         ? "nothing but null"
         : !columns_.empty()  ? "nothing but " + found()
                              : "an empty object") +
        nearest_help(may_be_named ? "train_data_columns, which names what to read" : closest));
  }

 private:
  ordered_json columns_;
  std::vector<std::string> unknown_;  // the first few names of what was ignored
  bool has_nulls_ = false;
};

// The one whose columns are there.
const LayoutColumns& layout_of(const Record& record) {
  std::vector<const LayoutColumns*> found;
  for (const LayoutColumns& layout : layouts())
    if (std::ranges::any_of(layout.names, [&](const auto& name) { return record.has(name); }))
      found.push_back(&layout);
  if (found.empty()) record.refuse();
  // A column of another may stand by: a question beside messages is one among others.
  std::vector<const LayoutColumns*> whole;
  std::ranges::copy_if(found, std::back_inserter(whole), [&](const LayoutColumns* layout) {
    return std::ranges::all_of(layout->names, [&](const auto& name) { return record.has(name); });
  });
  if (whole.size() > 1 || (whole.empty() && found.size() > 1))
    throw DataError("expected one of " + std::string(kForms) + "; found " + record.found() +
                    "; nearest: train_data_columns=" +
                    join((whole.empty() ? found : whole).back()->names, ",") +
                    ", which names what to read");
  if (whole.empty())
    for (const std::string& name : found.front()->names)
      if (!record.has(name))
        throw DataError("expected " + form_of(found.front()->names) + ", found no " +
                        in_quotes(name) + record.nearest_to(name));
  return *whole.front();
}

// What train_data_columns names, by what is there.
LayoutColumns layout_named(const std::vector<std::string>& columns, const Record& record) {
  for (const std::string& name : columns)
    if (!record.has(name))
      throw DataError("expected the column " + in_quotes(name) +
                      ", which train_data_columns names, found none" + record.nearest_to(name));
  for (const LayoutColumns& layout : layouts())
    if (layout.names == columns) return layout;
  if (columns.size() == 2) return {Layout::pair, columns};
  const bool is_list = record[columns[0]].is_array();
  return {is_list ? Layout::messages : Layout::text, columns};
}

std::vector<ImageSource> images_in(const Record& record) {
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

ordered_json message(const char* role, std::string content) {
  return {{"role", role}, {"content", std::move(content)}};
}

void expect_assistant(const Conversation& conversation, const std::string& name) {
  constexpr size_t kMaxShown = 4;
  std::vector<std::string> roles;
  for (const auto& each : conversation.messages) {
    if (each["role"] == kAssistant) return;
    if (const std::string role = in_quotes(each["role"].get<std::string>());
        roles.size() < kMaxShown && std::ranges::find(roles, role) == roles.end())
      roles.push_back(role);
  }
  throw DataError(name + ": found none of the assistant" +
                  (roles.empty() ? "" : " among those of " + join(roles)) +
                  ", expected one to learn");
}

Example chat(const std::string& name, Record& record) {
  ordered_json messages = record.take(name);
  put_system_before(record.text("system"), messages);
  ChatExample example;
  example.conversation = read_conversation(std::move(messages), record.take("tools"), name,
                                           images_in(record), example.images);
  expect_assistant(example.conversation, name);
  return example;
}

// Lists of messages, of which the completion's carry loss.
Example chat_of_pair(const std::vector<std::string>& names, Record& record) {
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

Example pair(const std::vector<std::string>& names, Record& record) {
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

Example answered(const std::string& question, const std::string& answer, const Record& record,
                 bool has_template) {
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

Example example_of(const LayoutColumns& layout, Record& record, bool has_template) {
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
  }
  throw InternalError("no such layout");
}

}  // namespace

std::span<const ImageSource> images_of(const Example& example) {
  if (const auto* pair = std::get_if<CompletionExample>(&example)) return pair->images;
  if (const auto* chat = std::get_if<ChatExample>(&example)) return chat->images;
  return {};
}

ReadExample read_example(std::string_view text, const ExampleOptions& options) {
  if (const std::string fault = utf8_fault(text); !fault.empty()) throw DataError(fault);
  std::optional<Record> record;
  try {
    record.emplace(text, options);
  } catch (const DataError& error) {
    // As a file is that was written for people.
    const size_t last = text.find_last_not_of(" \t\r\n");
    if (last != text.npos && last == text.find_first_of("{["))
      throw DataError(std::string(error.what()) + ", where a line has a whole example");
    throw;
  }
  const LayoutColumns layout =
      options.columns.empty() ? layout_of(*record) : layout_named(options.columns, *record);
  Example example = example_of(layout, *record, options.has_template);
  const bool takes_template = layout.layout == Layout::instruction ||
                              layout.layout == Layout::question ||
                              std::holds_alternative<ChatExample>(example);
  return {form_of(layout.names), takes_template, std::move(example)};
}

std::vector<std::string> columns_read(const ExampleOptions& options) {
  std::vector<std::string> columns = known_columns();
  columns.insert(columns.end(), options.columns.begin(), options.columns.end());
  return columns;
}

}  // namespace longshore::data
