// From text to settings: flat YAML, one `key: scalar` or `key: [scalar, ...]` a line, and
// `key=value` arguments.
//
// Everything else YAML can say is refused with file and line: nested maps and lists, anchors,
// aliases, merge keys, tags, several documents, a key given twice. Does not know which keys exist.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::trainer {

enum class ScalarStyle { plain, quoted, null };

struct Scalar {
  std::string text;
  ScalarStyle style = ScalarStyle::plain;
  // A list has no text of its own.
  std::optional<std::vector<std::string>> list = std::nullopt;
};

struct Setting {
  std::string key;
  Scalar value;
  std::string origin;  // "configs/x.yml:14" or "command line"
};

inline constexpr size_t kMaxConfigBytes = size_t{1} << 20;
inline constexpr std::string_view kCommandLine = "command line";

// `name` stands for the file in origins and messages.
std::vector<Setting> parse_yaml_settings(std::string_view text, const std::string& name);

// The text of a file, or so much of it that parse_yaml_settings() refuses it for its length. Throws
// ConfigError where it cannot be read.
std::string read_yaml_file(const std::filesystem::path& file, const std::string& name);

// The YAML files of a folder, sorted; none when there is no such folder.
std::vector<std::string> yaml_files(const std::filesystem::path& directory);

// `arguments` are "key=value".
std::vector<Setting> parse_command_line_settings(std::span<const std::string> arguments);

// The items of "[a, 'b']", or nothing when that is not all of a YAML list of scalars.
std::optional<std::vector<std::string>> parse_list(const std::string& text);

// A double-quoted YAML scalar that reads back as `text`, which must be UTF-8.
std::string yaml_quoted(std::string_view text);

// `text` on one line: control characters and bad UTF-8 become question marks.
std::string printable(std::string_view text);

// `text` as a message quotes it: printable and not too long.
std::string excerpt(std::string_view text);

}  // namespace longshore::trainer
