#include "data/text/example.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "base/utf8.h"

namespace longshore::data {
namespace {

const std::array<std::string, 4> kFields = {"text", "prompt", "completion", "messages"};
constexpr const char* kForms = "text, prompt and completion, or messages";

// What the line's object holds under the keys that are known.
class ExampleReader : public StrictJson {
 public:
  // As tables have it that were made of lines with different keys: no such key.
  bool null() override {
    switch (place_) {
      case Place::ignored:
        return ignore();
      case Place::value:
      case Place::messages:
        fields_.erase(field_);
        has_nulls_ = true;
        place_ = Place::key;
        return true;
      case Place::message_value:
        (field_ == "role" ? has_role_ : has_content_) = false;
        place_ = Place::message_key;
        return true;
      case Place::message_other:
        place_ = Place::message_key;
        return true;
      default:
        return StrictJson::null();
    }
  }
  bool boolean(bool value) override { return is_ignored() ? ignore() : StrictJson::boolean(value); }
  bool number_integer(number_integer_t value) override {
    return is_ignored() ? ignore() : StrictJson::number_integer(value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    return is_ignored() ? ignore() : StrictJson::number_unsigned(value);
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return is_ignored() ? ignore() : StrictJson::number_float(value, text);
  }

  bool string(string_t& value) override {
    switch (place_) {
      case Place::ignored:
        return ignore();
      case Place::value:
        texts_[field_] = std::move(value);
        place_ = Place::key;
        return true;
      case Place::message_value:
        (field_ == "role" ? messages_.back().role : messages_.back().content) = std::move(value);
        place_ = Place::message_key;
        return true;
      default:
        return StrictJson::string(value);
    }
  }

  bool start_object(size_t elements) override {
    switch (place_) {
      case Place::ignored:
        return open_ignored();
      case Place::start:
        place_ = Place::key;
        return true;
      case Place::message:
        messages_.emplace_back();
        has_role_ = has_content_ = false;
        place_ = Place::message_key;
        return true;
      default:
        return StrictJson::start_object(elements);
    }
  }

  bool key(string_t& name) override {
    if (place_ == Place::ignored) return true;
    if (place_ == Place::message_key) return message_key(name);
    const bool is_known = std::ranges::find(kFields, name) != kFields.end();
    if (!is_known) {
      if (unknown_.size() < kMaxUnknown) unknown_.push_back(name);
      place_ = Place::ignored;
      return true;
    }
    if (!fields_.insert(name).second)
      throw DataError(in_quotes(name) + ": found the key again, expected it once");
    field_ = name;
    place_ = name == "messages" ? Place::messages : Place::value;
    return true;
  }

  bool end_object() override {
    switch (place_) {
      case Place::ignored:
        return close_ignored();
      case Place::message_key:
        if (!has_role_ || !has_content_) refuse("none");
        place_ = Place::message;
        return true;
      default:
        place_ = Place::start;
        return true;
    }
  }

  bool start_array(size_t elements) override {
    if (place_ == Place::ignored) return open_ignored();
    if (place_ != Place::messages) return StrictJson::start_array(elements);
    place_ = Place::message;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::ignored) return close_ignored();
    place_ = Place::key;
    return true;
  }

  Example take() {
    auto has = [&](const char* name) { return fields_.contains(name); };
    if (fields_.empty()) refuse_unknown();
    const bool is_pair = has("prompt") || has("completion");
    if (has("text") + is_pair + has("messages") > 1)
      throw DataError("expected one of " + std::string(kForms) + "; found " + found_fields());
    if (has("text")) return TextExample{trained("text")};
    if (has("messages")) return chat();
    for (const char* name : {"prompt", "completion"})
      if (!has(name))
        throw DataError("expected prompt and completion, found no " + in_quotes(name) +
                        nearest_to(name));
    return CompletionExample{std::move(texts_["prompt"]), trained("completion")};
  }

 protected:
  std::string expectation() const override {
    const std::string message =
        "messages[" + std::to_string(messages_.empty() ? 0 : messages_.size() - 1) + "]";
    switch (place_) {
      case Place::start:
        return std::string("expected an object with ") + kForms;
      case Place::value:
        return field_ + ": expected a string";
      case Place::messages:
        return "messages: expected a list of objects with role and content";
      case Place::message:
        return "messages[" + std::to_string(messages_.size()) +
               "]: expected an object with role and content";
      case Place::message_key:
        return message + ": expected " +
               (!has_role_ && has_content_   ? "a role"
                : has_role_ && !has_content_ ? "a content"
                                             : "role and content alone");
      case Place::message_value:
        return message + "." + field_ + ": expected a string";
      case Place::message_other:
        return message + ": expected role and content alone, found the key " + in_quotes(field_) +
               ", which would have to be null";
      default:
        return "expected a key or the end of the object";
    }
  }

 private:
  enum class Place {
    start,          // of the line, and its end
    key,            // of the line's object
    value,          // of text, prompt or completion
    ignored,        // within the value of another key
    messages,       // before the list
    message,        // before one of them, or the list's end
    message_key,    // of one of them
    message_value,  // of its role or content
    message_other,  // before the value of another key, which could change what it means
  };
  static constexpr size_t kMaxUnknown = 8;

  bool is_ignored() const { return place_ == Place::ignored; }
  bool ignore() {
    if (ignored_depth_ == 0) place_ = Place::key;
    return true;
  }
  bool open_ignored() {
    ++ignored_depth_;
    return true;
  }
  bool close_ignored() {
    --ignored_depth_;
    return ignore();
  }

  bool message_key(const std::string& name) {
    bool* has = name == "role" ? &has_role_ : name == "content" ? &has_content_ : nullptr;
    if (has != nullptr && *has) refuse("the key " + in_quotes(name) + " again");
    if (has != nullptr) *has = true;
    field_ = name;
    place_ = has != nullptr ? Place::message_value : Place::message_other;
    return true;
  }

  std::string found_fields() const {
    return join(std::vector<std::string>(fields_.begin(), fields_.end()));
  }

  std::string nearest_to(const std::string& name) const {
    const std::string closest = nearest(name, unknown_);
    return nearest_help(closest.empty() ? "" : in_quotes(closest));
  }

  [[noreturn]] void refuse_unknown() const {
    std::string found;
    for (const std::string& name : unknown_)
      found += (found.empty() ? "the keys " : ", ") + in_quotes(name);
    std::string closest;
    for (const std::string& name : unknown_)
      if (closest.empty()) closest = nearest(name, kFields);
    throw DataError(std::string("expected ") + kForms + "; found " +
                    (!found.empty() ? found
                     : has_nulls_   ? "nothing but null"
                                    : "an empty object") +
                    nearest_help(closest));
  }

  std::string trained(const std::string& name) {
    if (texts_[name].empty()) throw DataError(name + ": found nothing, expected text to learn");
    return std::move(texts_[name]);
  }

  Example chat() {
    const bool has_completion = std::ranges::any_of(
        messages_, [](const ChatMessage& message) { return message.role == "assistant"; });
    if (!has_completion)
      throw DataError("messages: found none of the assistant" + roles() +
                      ", expected one to learn");
    return ChatExample{std::move(messages_)};
  }

  // " among those of "human", "gpt""; the first few.
  std::string roles() const {
    constexpr size_t kMaxShown = 4;
    std::vector<std::string> found;
    for (const ChatMessage& message : messages_)
      if (const std::string role = in_quotes(message.role);
          found.size() < kMaxShown && std::ranges::find(found, role) == found.end())
        found.push_back(role);
    return found.empty() ? "" : " among those of " + join(found);
  }

  Place place_ = Place::start;
  size_t ignored_depth_ = 0;
  std::string field_;             // whose value comes
  std::set<std::string> fields_;  // those known that were met
  std::map<std::string, std::string> texts_;
  std::vector<ChatMessage> messages_;
  bool has_role_ = false, has_content_ = false, has_nulls_ = false;
  std::vector<std::string> unknown_;  // the first few keys that were ignored
};

}  // namespace

std::string form_of(const Example& example) {
  constexpr std::array kNames = {"text", "prompt and completion", "messages"};
  return kNames[example.index()];
}

Example parse_example(std::string_view line) {
  if (const std::string fault = utf8_fault(line); !fault.empty()) throw DataError(fault);
  ExampleReader reader;
  try {
    reader.read(line);
  } catch (const DataError& error) {
    // As a file is that was written for people.
    const size_t last = line.find_last_not_of(" \t\r\n");
    if (last != line.npos && last == line.find_first_of("{["))
      throw DataError(std::string(error.what()) + ", where a line has a whole example");
    throw;
  }
  return reader.take();
}

}  // namespace longshore::data
