// Any file of records, of the kind that its first byte says: refused with a DataError, or read to
// its end, a table as objects of JSON.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/data/text/open_records.h"
#include "tests/fuzz/memory_folder.h"

namespace {

constexpr std::array<std::string_view, 8> kEnds{".jsonl",    ".json",    ".csv",    ".tsv",
                                                ".jsonl.gz", ".csv.zst", ".csv.gz", ".json.zst"};

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view end = kEnds[data[0] % kEnds.size()];
  static const longshore::MemoryFolder folder;
  const std::filesystem::path path = folder.path() / ("a" + std::string(end));
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data + 1), static_cast<std::streamsize>(size - 1));
  try {
    const auto reader = longshore::data::open_records(path);
    int64_t line = 0;
    for (std::string record; reader->next(record);) {
      require(reader->line_number() >= std::max<int64_t>(line, 1));
      line = reader->line_number();
      if (end.starts_with(".csv") || end == ".tsv")
        require(longshore::json_tree(record).is_object());
    }
  } catch (const longshore::DataError& error) {
    // What a message quotes of the file is printable.
    require(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
