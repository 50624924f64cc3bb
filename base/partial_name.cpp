#include "base/partial_name.h"

#include <unistd.h>

#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace longshore {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial-";

// A user's "notes.partial-draft" is not one.
bool is_partial(std::string_view name) {
  const size_t end = name.rfind(kPartial);
  if (end == std::string_view::npos || end == 0) return false;
  const std::string_view numbers = name.substr(end + kPartial.size());
  return !numbers.empty() && numbers.find_first_not_of("0123456789-") == std::string_view::npos;
}

}  // namespace

fs::path partial_name(const fs::path& path) {
  return path.string() + std::string(kPartial) + std::to_string(getpid());
}

void remove_leftovers(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (is_partial(entry.path().filename().string())) leftovers.push_back(entry.path());
  for (const fs::path& path : leftovers) {
    fs::remove_all(path, error);
    if (error) throw FileError(path.string() + ": cannot be removed: " + error.message());
  }
}

}  // namespace longshore
