#include "longshore/data/text/open_table_file.h"

#include <dlfcn.h>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/program_folder.h"
#include "longshore/data/files/file_mapping.h"
#include "longshore/data/text/table_library.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;

using OpenTable = decltype(&longshore_open_table);

// Once loaded it stays.
OpenTable load_library(const fs::path& path) {
  const fs::path library = library_path("liblongshore_tables.so");
  const std::string help = std::string("; nearest: ") +
                           (is_installed() ? "a package that was made after scripts/setup --parquet"
                                           : "scripts/setup --parquet, and build again") +
                           ", or a .jsonl of the same rows";
  if (!fs::exists(library))
    throw DataError(path_text(path) + ": found a " + printable(path.extension().string()) +
                    " file, which this build has no libraries for" + help);
  // What it brings along is its own: LibTorch has other versions of some of it.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* entry = handle ? dlsym(handle, "longshore_open_table") : nullptr;
  if (!entry)
    throw DataError(path_text(path) + ": cannot load what reads it: " + library_message(dlerror()) +
                    help);
  return reinterpret_cast<OpenTable>(entry);
}

class TableFileReader final : public RecordReader {
 public:
  TableFileReader(const fs::path& path, TextFormat format,
                  const std::optional<std::vector<std::string>>& columns)
      : open_(load_library(path)), mapping_(path, Access::anywhere) {
    rows_.reset(open_({.bytes = mapping_.text(),
                       .name = path_text(path),
                       .is_parquet = format == TextFormat::parquet,
                       .columns = columns ? &*columns : nullptr}));
  }

  bool next(std::string& record) override { return rows_->next(record); }
  int64_t line_number() const override { return rows_->line_number(); }

 private:
  OpenTable open_;
  FileMapping mapping_;
  std::unique_ptr<RecordReader> rows_;
};

}  // namespace

std::unique_ptr<RecordReader> open_table_file(
    const fs::path& path, TextFormat format,
    const std::optional<std::vector<std::string>>& columns) {
  return std::make_unique<TableFileReader>(path, format, columns);
}

}  // namespace longshore::data
