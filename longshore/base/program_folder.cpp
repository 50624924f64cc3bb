#include "longshore/base/program_folder.h"

#include <system_error>

namespace longshore {

namespace fs = std::filesystem;

fs::path program_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

fs::path library_path(const std::string& name) {
  return program_folder().parent_path() / "lib" / name;
}

fs::path installed_path(const std::string& name) {
  return program_folder().parent_path() / "share/longshore" / name;
}

bool is_installed() {
  std::error_code error;
  return fs::exists(installed_path("configs"), error);
}

}  // namespace longshore
