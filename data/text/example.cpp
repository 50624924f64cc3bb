#include "data/text/example.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
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

const std::array<std::string, 8> kFields = {"text",   "prompt",   "completion", "prefix",
                                            "suffix", "messages", "image",      "images"};
constexpr std::array<std::string_view, 5> kPartFields = {"type", "text", "image", "path", "url"};
constexpr const char* kForms = "text, prompt and completion, or messages";

bool is_image_field(const std::string& name) { return name == "image" || name == "images"; }

// What a part of a message's content holds; its image goes by any of three names.
struct PartFields {
  std::optional<std::string> type, text, image;
  std::string image_name = "image";
};

// What the line's object holds under the keys that are known.
class ExampleReader : public StrictJson {
 public:
  // As tables have it that were made of lines with different keys: no such key.
  bool null() override {
    switch (place_) {
      case Place::ignored:
        return ignore();
      case Place::value:
      case Place::images:
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
      case Place::part_value:
      case Place::part_other:
        place_ = Place::part_key;
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
      case Place::images:
        place_ = Place::key;
        images_.push_back({field_, std::move(value)});
        return true;
      case Place::image:
        images_.push_back({image_name(), std::move(value)});
        return true;
      case Place::message_value:
        (field_ == "role" ? messages_.back().role : messages_.back().content) = std::move(value);
        place_ = Place::message_key;
        return true;
      case Place::part_value:
        *part_value() = std::move(value);
        place_ = Place::part_key;
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
      case Place::part:
        part_ = {};
        place_ = Place::part_key;
        return true;
      default:
        return StrictJson::start_object(elements);
    }
  }

  bool key(string_t& name) override {
    if (place_ == Place::ignored) return true;
    if (place_ == Place::message_key) return message_key(name);
    if (place_ == Place::part_key) return part_key(name);
    const bool is_known = std::ranges::find(kFields, name) != kFields.end();
    if (!is_known) {
      if (unknown_.size() < kMaxUnknown) unknown_.push_back(name);
      place_ = Place::ignored;
      return true;
    }
    if (!fields_.insert(name).second)
      throw DataError(in_quotes(name) + ": found the key again, expected it once");
    field_ = name;
    place_ = name == "messages"     ? Place::messages
             : is_image_field(name) ? Place::images
                                    : Place::value;
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
      case Place::part_key:
        add_part();
        place_ = Place::part;
        return true;
      default:
        place_ = Place::start;
        return true;
    }
  }

  bool start_array(size_t elements) override {
    switch (place_) {
      case Place::ignored:
        return open_ignored();
      case Place::messages:
        place_ = Place::message;
        return true;
      case Place::images:
        place_ = Place::image;
        return true;
      case Place::message_value:
        if (field_ != "content") return StrictJson::start_array(elements);
        place_ = Place::part;
        return true;
      default:
        return StrictJson::start_array(elements);
    }
  }

  bool end_array() override {
    if (place_ == Place::ignored) return close_ignored();
    place_ = place_ == Place::part ? Place::message_key : Place::key;
    return true;
  }

  Example take() {
    auto has = [&](const char* name) { return fields_.contains(name); };
    const bool is_pair = has("prompt") || has("completion"),
               is_named_otherwise = has("prefix") || has("suffix");
    const int forms = has("text") + is_pair + is_named_otherwise + has("messages");
    if (forms == 0) refuse_unknown();
    if (forms > 1 || (has("image") && has("images")))
      throw DataError("expected one of " + std::string(kForms) +
                      (has("image") && has("images") ? ", and one of image or images" : "") +
                      "; found " + found_fields());
    if (has("messages")) return chat();
    if (!has("text"))
      return pair(is_named_otherwise ? "prefix" : "prompt",
                  is_named_otherwise ? "suffix" : "completion");
    if (!images_.empty())
      throw DataError("found " + plural(std::ssize(images_), "image") +
                      " with text, expected prompt and completion, or messages, with images");
    return TextExample{trained("text")};
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
      case Place::images:
        return field_ + ": expected a string or a list of strings, paths or base64";
      case Place::image:
        return image_name() + ": expected a string, a path or base64";
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
        return message + "." + field_ +
               (field_ == "role" ? ": expected a string"
                                 : ": expected a string or a list of parts");
      case Place::part:
        return part_name(message) + ": expected an object with type and text or image";
      case Place::part_key:
        return part_name(message) + ": expected type and text or image alone";
      case Place::part_value:
        return part_name(message) + "." + field_ + ": expected a string";
      case Place::part_other:
        return part_name(message) + ": expected type and text or image alone, found the key " +
               in_quotes(field_) + ", which would have to be null";
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
    images,         // before the string or list of image or images
    image,          // before one of the list, or its end
    ignored,        // within the value of another key
    messages,       // before the list
    message,        // before one of them, or the list's end
    message_key,    // of one of them
    message_value,  // of its role or content
    message_other,  // before the value of another key, which could change what it means
    part,           // before a part of its content, or the list's end
    part_key,       // of one of them
    part_value,     // of one of kPartFields
    part_other,     // of another key
  };
  static constexpr size_t kMaxUnknown = 8;

  // An image as the line has it, and where, for messages.
  struct ImageField {
    std::string name, value;
  };

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

  std::string image_name() const { return field_ + "[" + std::to_string(images_.size()) + "]"; }

  std::string part_name(const std::string& message) const {
    return message + ".content[" +
           std::to_string(messages_.empty() ? 0 : messages_.back().parts.size()) + "]";
  }
  std::string part_name() const {
    return part_name("messages[" + std::to_string(messages_.size() - 1) + "]");
  }

  std::optional<std::string>* part_value() {
    return field_ == "type" ? &part_.type : field_ == "text" ? &part_.text : &part_.image;
  }

  bool part_key(const std::string& name) {
    field_ = name;
    const bool is_known = std::ranges::find(kPartFields, name) != kPartFields.end();
    if (is_known && part_value()->has_value()) refuse("the key " + in_quotes(name) + " again");
    place_ = is_known ? Place::part_value : Place::part_other;
    if (is_known && part_value() == &part_.image) part_.image_name = name;
    return true;
  }

  void add_part() {
    const std::string type = part_.type.value_or("");
    if (type != "text" && type != "image")
      throw DataError(part_name() + ".type: expected text or image, found " +
                      (part_.type ? in_quotes(type) : "none"));
    const bool is_image = type == "image";
    if (is_image ? part_.text.has_value() : !part_.text || part_.image)
      throw DataError(part_name() + ": expected " +
                      (is_image ? "an image or nothing else" : "a text alone") +
                      " beside the type " + type + ", found " +
                      (part_.text    ? part_.image ? "text and image" : "a text"
                       : part_.image ? "an image"
                                     : "none"));
    if (is_image) {
      own_images_.emplace_back();
      if (part_.image)
        own_images_.back() = {part_name() + "." + part_.image_name, std::move(*part_.image)};
    }
    messages_.back().parts.push_back({part_.text.value_or(""), is_image});
  }

  static ImageSource source_of(const ImageField& field) {
    try {
      return parse_image_source(field.value);
    } catch (const DataError& error) {
      throw DataError(field.name + ": " + error.what());
    }
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
                    (!found.empty()     ? found
                     : has_nulls_       ? "nothing but null"
                     : !fields_.empty() ? "nothing but " + found_fields()
                                        : "an empty object") +
                    nearest_help(closest));
  }

  std::string trained(const std::string& name) {
    if (texts_[name].empty()) throw DataError(name + ": found nothing, expected text to learn");
    return std::move(texts_[name]);
  }

  CompletionExample pair(const char* prompt, const char* completion) {
    for (const char* name : {prompt, completion})
      if (!fields_.contains(name))
        throw DataError(std::string("expected ") + prompt + " and " + completion + ", found no " +
                        in_quotes(name) + nearest_to(name));
    CompletionExample example{std::move(texts_[prompt]), trained(completion)};
    std::ranges::transform(images_, std::back_inserter(example.images), source_of);
    return example;
  }

  // The images of the parts: their own, or else the line's in turn.
  std::vector<ImageSource> images_of_parts() const {
    const auto without = std::ranges::count_if(
        own_images_, [](const ImageField& field) { return field.name.empty(); });
    if (without != std::ssize(images_))
      throw DataError("found " + plural(std::ssize(images_), "image") + ", expected " +
                      std::to_string(without) +
                      R"(: one for each part {"type": "image"} of the messages' content that has )"
                      "none of its own");
    std::vector<ImageSource> images;
    auto next = images_.begin();
    for (const ImageField& field : own_images_)
      images.push_back(source_of(field.name.empty() ? *next++ : field));
    return images;
  }

  Example chat() {
    const bool has_completion = std::ranges::any_of(
        messages_, [](const ChatMessage& message) { return message.role == "assistant"; });
    if (!has_completion)
      throw DataError("messages: found none of the assistant" + roles() +
                      ", expected one to learn");
    for (ChatMessage& message : messages_)
      if (message.parts.size() == 1 && !message.parts.front().is_image) {
        message.content = std::move(message.parts.front().text);
        message.parts.clear();
      }
    return ChatExample{std::move(messages_), images_of_parts()};
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
  PartFields part_;                     // the one that is read
  std::vector<ImageField> images_;      // of the line
  std::vector<ImageField> own_images_;  // for each part that is an image; without a name: none
  bool has_role_ = false, has_content_ = false, has_nulls_ = false;
  std::vector<std::string> unknown_;  // the first few keys that were ignored
};

}  // namespace

std::string form_of(const Example& example) {
  constexpr std::array kNames = {"text", "prompt and completion", "messages"};
  return kNames[example.index()];
}

std::span<const ImageSource> images_of(const Example& example) {
  if (const auto* pair = std::get_if<CompletionExample>(&example)) return pair->images;
  if (const auto* chat = std::get_if<ChatExample>(&example)) return chat->images;
  return {};
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
