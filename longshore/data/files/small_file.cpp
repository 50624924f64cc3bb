#include "longshore/data/files/small_file.h"

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/files/file_mapping.h"

namespace longshore::data {

std::string read_small_file(const std::filesystem::path& path, uint64_t most_mib) {
  const FileMapping file(path, Access::from_front_to_back);
  if (file.text().size() > most_mib << 20)
    throw DataError(path_text(path) + ": found " + std::to_string(file.text().size()) +
                    " bytes, expected at most " + std::to_string(most_mib) + " MiB");
  return std::string(file.text());
}

}  // namespace longshore::data
