// Reads settings from flat YAML, with one `key: scalar` or `key: [scalar, ...]` on each line, and
// from `key=value` arguments. Does not know which keys exist.
//
// Throws ConfigError with file and line for all other YAML: anchors, aliases, merge keys, tags,
// several documents, a key that is given twice, and nested maps and lists unless they are asked
// for.
#pragma once

#include <cstdint>
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
  // The items of a list, whose `text` is empty.
  std::optional<std::vector<std::string>> list = std::nullopt;
  // What is no value here: "a map", "a list of maps", "a list of lists"; "" for what is one.
  std::string nested = {};
};

struct Setting {
  std::string key;
  Scalar value;
  std::string origin;  // "configs/x.yml:14" or "command line"
};

inline constexpr size_t kMaxConfigBytes = size_t{2} << 20;  // with a long list of tokens
inline constexpr std::string_view kCommandLine = "command line";

// `kept`: as settings whose values are only named, so that whoever knows the keys says what they
// are called here.
enum class Nested : uint8_t { refused, kept };

// `name` is the name of the file in origins and messages.
std::vector<Setting> parse_yaml_settings(std::string_view text, const std::string& name,
                                         Nested nested = Nested::refused);

// The text of a file, or as much of it as parse_yaml_settings() needs to refuse it for its length.
// Throws ConfigError if the file cannot be read.
std::string read_yaml_file(const std::filesystem::path& file, const std::string& name);

// Whether a name stands for a file by its path, and not for one of those in a folder of configs/.
bool is_path(std::string_view name);

// The names of the YAML files in a folder, sorted; none if there is no such folder.
std::vector<std::string> yaml_files(const std::filesystem::path& directory);

// `arguments` are "key=value".
std::vector<Setting> parse_command_line_settings(std::span<const std::string> arguments);

// The items of "[a, 'b']"; nothing if the text is not exactly one YAML list of scalars.
std::optional<std::vector<std::string>> parse_list(const std::string& text);

// A double-quoted YAML scalar that reads back as `text`, which must be UTF-8.
std::string yaml_quoted(std::string_view text);

}  // namespace longshore::trainer
