#include "data/files/conversion.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string_view>

#include "base/printable.h"

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

std::string python(const std::string& program, const fs::path& from, const fs::path& to) {
  return "python3 -c '" + program + "' " + shell_word(from.string()) + " " +
         shell_word(to.string());
}

std::string by_pandas(const std::string& read, const fs::path& from, const fs::path& to) {
  return python("import sys, " + read +
                    ".to_json(sys.argv[2], orient=\"records\", lines=True, force_ascii=False)",
                from, to);
}

// Whether a .json holds a list; else it should be one object a line.
bool holds_list(const fs::path& path) {
  std::ifstream file(path);
  char first = 0;
  return (file >> first) && first == '[';
}

}  // namespace

std::string conversion_command(const fs::path& path) {
  if (printable(path.string()) != path.string())
    return conversion_command("FILE" + printable(path.extension().string()));
  std::string format = path.extension().string();
  std::ranges::transform(format, format.begin(), [](unsigned char c) { return std::tolower(c); });
  fs::path jsonl = path;
  jsonl.replace_extension(".jsonl");
  const std::string file = shell_word(path.string());
  const std::string renaming = "mv " + file + " " + shell_word(jsonl.string());

  if (format == ".ndjson" || format == ".jsonlines") return renaming;
  if (format == ".jsonl") return path == jsonl ? "" : renaming;
  if (format == ".json" && holds_list(path))
    return python(
        "import sys, json; open(sys.argv[2], \"w\").writelines(json.dumps(row) + \"\\n\" for row "
        "in "
        "json.load(open(sys.argv[1])))",
        path, jsonl);
  if (format == ".json") return renaming;
  if (format == ".parquet")
    return by_pandas("pandas; pandas.read_parquet(sys.argv[1])", path, jsonl);
  if (format == ".csv")
    return by_pandas("pandas; pandas.read_csv(sys.argv[1], dtype=str, keep_default_na=False)", path,
                     jsonl);
  if (format == ".tsv")
    return by_pandas(
        "pandas; pandas.read_csv(sys.argv[1], sep=\"\\t\", dtype=str, keep_default_na=False)", path,
        jsonl);
  if (format == ".arrow")
    return by_pandas(
        "pyarrow as pa; (pa.ipc.open_file if open(sys.argv[1], \"rb\").read(6) == b\"ARROW1\" else "
        "pa.ipc.open_stream)(sys.argv[1]).read_pandas()",
        path, jsonl);
  if (format == ".gz") return "gunzip -k " + file;
  if (format == ".zst") return "unzstd " + file;
  if (format == ".xz") return "unxz -k " + file;
  if (format == ".bz2") return "bunzip2 -k " + file;
  if (format == ".zip") return "unzip " + file;
  return "";
}

}  // namespace longshore::data
