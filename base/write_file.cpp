#include "base/write_file.h"

#include <fstream>
#include <system_error>

#include "base/error.h"

namespace longshore {

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::path partial = path;
  partial += ".partial";
  std::ofstream stream(partial, std::ios::binary);
  stream << content;
  stream.close();
  std::error_code error;
  if (stream) std::filesystem::rename(partial, path, error);
  if (stream && !error) return;
  std::error_code ignored;
  std::filesystem::remove(partial, ignored);
  throw Error(path.native() + ": cannot be written" + (error ? ": " + error.message() : ""));
}

}  // namespace longshore
