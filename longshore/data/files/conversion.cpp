#include "longshore/data/files/conversion.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "longshore/base/printable.h"
#include "longshore/data/files/text_format.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;

// As one word of a command.
std::string shell_word(const std::string& text) {
  const bool is_plain = std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("_-./+,:@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_plain && !text.empty()) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// Commands that take any ending, and leave what is there already as it is.
std::string unpacked(const char* program, const fs::path& from) {
  fs::path to = from;
  to.replace_extension();
  return "set -C; " + std::string(program) + " -dc " + shell_word(from.string()) + " > " +
         shell_word(to.string());
}

}  // namespace

std::string conversion_command(const fs::path& path) {
  if (is_text(path)) return "";
  if (printable(path.string()) != path.string())
    return conversion_command("FILE" + printable(path.extension().string()));
  std::string format = path.extension().string();
  std::ranges::transform(format, format.begin(), [](unsigned char c) { return std::tolower(c); });
  if (format == ".gz") return unpacked("gzip", path);
  if (format == ".zst") return unpacked("zstd", path);
  if (format == ".xz") return unpacked("xz", path);
  if (format == ".bz2") return unpacked("bzip2", path);
  if (format == ".zip") return "unzip -n " + shell_word(path.string());
  return "";
}

}  // namespace longshore::data
