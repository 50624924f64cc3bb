#include "longshore/trainer/config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

std::string origin_of(const std::string& name, int line) {
  return name + ":" + std::to_string(line);
}

// Throws at the first event that a flat map of scalars and lists does not have, other than maps and
// lists of some levels, so that deep nesting and alias bombs cost nothing.
class FlatMapReader : public YAML::EventHandler {
 public:
  FlatMapReader(std::string name, Nested nested) : name_(std::move(name)), nesting_(nested) {}

  std::vector<Setting> settings;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark, "a second document", "one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    if (state_ == State::key) refuse(mark, "an empty key", "key: value");
    add_scalar(mark, {"", ScalarStyle::null});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "an alias (*name)", "the value itself");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    // The parser gives these tags to scalars without one: "?" to plain ones, "!" to those in quotes
    // or blocks.
    if (tag != "?" && tag != "!") refuse(mark, "the tag " + excerpt(tag), "a value without a tag");
    add_scalar(mark, {value, tag == "?" ? ScalarStyle::plain : ScalarStyle::quoted});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse_anchor(mark, anchor);
    if (state_ == State::item || levels_ > 0) {
      if (nesting_ == Nested::refused) refuse(mark, "a list in a list", "single values");
      return begin_nested(mark, "a list of lists");
    }
    if (state_ != State::value) refuse(mark, "a list", "key: value");
    if (tag != "?") refuse(mark, "the tag " + excerpt(tag), "a list without a tag");
    list_.emplace();
    state_ = State::item;
  }
  void OnSequenceEnd() override {
    if (levels_ > 0) return end_nested();
    state_ = State::value;
    add_value({.text = "", .list = std::move(list_), .nested = std::exchange(nested_, "")});
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse_anchor(mark, anchor);
    if (state_ != State::root) {
      bool is_value = state_ == State::value || state_ == State::item;
      if (!is_value || nesting_ == Nested::refused)
        refuse(mark, "a map", is_value ? "a single value" : "key: value");
      return begin_nested(mark, state_ == State::value ? "a map" : "a list of maps");
    }
    if (tag != "?") refuse(mark, "the tag " + excerpt(tag), "a map without a tag");
    state_ = State::key;
  }
  void OnMapEnd() override {
    if (levels_ > 0) end_nested();
  }

 private:
  enum class State { root, key, value, item };

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& found,
                           const std::string& expected) const {
    std::string where = origin_of(name_, mark.line + 1);
    if (state_ == State::value || state_ == State::item) where += " " + excerpt(key_);
    throw ConfigError(where + ": found " + found + ", expected " + expected);
  }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) {
      refuse(mark, "an anchor (&name)", "a value without an anchor");
    }
  }

  void begin_nested(const YAML::Mark& mark, const char* what) {
    constexpr int kMostLevels = 8;
    if (levels_ == kMostLevels)
      refuse(mark, "more than 8 maps and lists within each other", "key: value");
    if (levels_++ == 0) nested_ = what;
  }

  void end_nested() {
    if (--levels_ == 0 && state_ == State::value)
      add_value({.text = "", .nested = std::exchange(nested_, "")});
  }

  void add_scalar(const YAML::Mark& mark, Scalar scalar) {
    if (levels_ > 0) return;
    switch (state_) {
      case State::root:
        if (scalar.style == ScalarStyle::null) return;  // "---" on its own has no keys
        refuse(mark, excerpt(scalar.text), "key: value");
      case State::key:
        if (scalar.text == "<<") refuse(mark, "a merge key (<<)", "base_config: other.yml");
        if (auto [first, is_new] = lines_.try_emplace(scalar.text, mark.line + 1); !is_new) {
          throw ConfigError(origin_of(name_, mark.line + 1) + " " + excerpt(scalar.text) +
                            ": found the key again, expected it once; the first is on line " +
                            std::to_string(first->second));
        }
        key_ = scalar.text;
        key_line_ = mark.line + 1;
        state_ = State::value;
        return;
      case State::value:
        add_value(std::move(scalar));
        return;
      case State::item:
        if (scalar.style == ScalarStyle::null) refuse(mark, "an item without a value", "text");
        list_->push_back(std::move(scalar.text));
        return;
    }
  }

  void add_value(Scalar value) {
    settings.push_back({key_, std::move(value), origin_of(name_, key_line_)});
    state_ = State::key;
  }

  std::string name_;
  Nested nesting_;
  int levels_ = 0;  // of a nested value
  std::string nested_;
  State state_ = State::root;
  int documents_ = 0;
  std::string key_;
  int key_line_ = 0;
  std::optional<std::vector<std::string>> list_;
  std::map<std::string, int> lines_;
};

std::string hex(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  unsigned char byte = static_cast<unsigned char>(c);
  return {kDigits[byte >> 4], kDigits[byte & 15]};
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// Throws for the first byte that is not valid UTF-8 or is a control character: the YAML parser
// repairs invalid UTF-8 silently and ends at some control characters. `origin` gives the place of a
// line.
template <class Origin>
void check_characters(std::string_view text, Origin origin) {
  int line = 1;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\n') ++line;
    bool allowed = !is_control(text[i]) || text[i] == '\n' || text[i] == '\r' || text[i] == '\t';
    size_t bytes = character_length(text.substr(i));
    if (bytes == 0 || !allowed) {
      throw ConfigError(origin(line) + ": found the byte 0x" + hex(text[i]) +
                        ", expected UTF-8 text without control characters");
    }
    i += bytes;
  }
}

void read_yaml(std::string_view text, const std::string& name, YAML::EventHandler& handler) {
  if (text.size() > kMaxConfigBytes) {
    throw ConfigError(name + ": found more than 2 MiB, expected a config");
  }
  check_characters(text, [&](int line) { return origin_of(name, line); });
  try {
    // If the text ends on the line of an open quote, the parser notices that it is not closed only
    // if a comment follows.
    std::istringstream stream(std::string(text) + (text.ends_with('\n') ? "#" : "\n#"));
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(handler)) {
    }
  } catch (const YAML::Exception& error) {
    std::string where = error.mark.is_null() ? name : origin_of(name, error.mark.line + 1);
    throw ConfigError(where + ": found " + library_message(error.msg) +
                      ", expected flat YAML (key: value)");
  }
}

// The value of a text that may be a YAML scalar or list.
std::optional<Scalar> parse_value(const std::string& text) {
  FlatMapReader reader(std::string(kCommandLine), Nested::refused);
  try {
    read_yaml("value: " + text, std::string(kCommandLine), reader);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
  if (reader.settings.size() != 1) return std::nullopt;
  return std::move(reader.settings.front().value);
}

Scalar parse_quoted(const std::string& text, const std::string& key) {
  std::optional<Scalar> value = parse_value(text);
  if (!value) {
    const bool has_escape = text.starts_with('"') && text.find('\\') != std::string::npos;
    throw ConfigError(std::string(kCommandLine) + " " + excerpt(key) + ": found " + excerpt(text) +
                      ", expected a value that ends where its quotes end" +
                      (has_escape ? R"(, and within double quotes YAML's escapes: \\ for \)" : ""));
  }
  return *std::move(value);
}

bool is_null_word(std::string_view text) {
  return text == "~" || text == "null" || text == "Null" || text == "NULL";
}

}  // namespace

std::string read_yaml_file(const fs::path& file, const std::string& name) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMaxConfigBytes + 1, '\0');
  if (stream) stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.is_open() || stream.bad())
    throw ConfigError(name + ": found a file that cannot be read, expected a config");
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

bool is_path(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".yml") ||
         name.ends_with(".jinja");
}

std::vector<std::string> yaml_files(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entries(directory, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (entries->path().extension() == ".yml") {
      names.push_back(entries->path().filename().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

std::vector<Setting> parse_yaml_settings(std::string_view text, const std::string& name,
                                         Nested nested) {
  FlatMapReader reader(name, nested);
  read_yaml(text, name, reader);
  if (reader.settings.empty()) throw ConfigError(name + ": found no keys, expected key: value");
  return std::move(reader.settings);
}

std::vector<Setting> parse_command_line_settings(std::span<const std::string> arguments) {
  std::vector<Setting> settings;
  for (const std::string& argument : arguments) {
    size_t equals = argument.find('=');
    if (equals == 0 || equals == std::string::npos) {
      const size_t colon = argument.find(':');
      const bool has_colon = equals == std::string::npos && colon != std::string::npos && colon > 0;
      throw ConfigError(std::string(kCommandLine) + ": found " + excerpt(argument) +
                        ", expected key=value" +
                        (has_colon ? "; nearest: " + excerpt(argument.substr(0, colon) + "=" +
                                                             argument.substr(colon + 1))
                                   : ""));
    }
    std::string key = argument.substr(0, equals);
    std::string text = argument.substr(equals + 1);
    check_characters(text, [&](int) { return std::string(kCommandLine) + " " + excerpt(key); });
    if (std::ranges::find(settings, key, &Setting::key) != settings.end()) {
      throw ConfigError(std::string(kCommandLine) + " " + excerpt(key) +
                        ": found the key again, expected it once");
    }
    Scalar value;
    if (text.starts_with('"') || text.starts_with('\'')) {
      value = parse_quoted(text, key);
    } else {
      value = {text, is_null_word(text) ? ScalarStyle::null : ScalarStyle::plain};
    }
    settings.push_back({std::move(key), std::move(value), std::string(kCommandLine)});
  }
  return settings;
}

std::optional<std::vector<std::string>> parse_list(const std::string& text) {
  std::optional<Scalar> value = text.starts_with('[') ? parse_value(text) : std::nullopt;
  return value ? std::move(value->list) : std::nullopt;
}

std::string yaml_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (is_control(c)) {
      quoted += "\\x" + hex(c);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace longshore::trainer
