#include "longshore/base/atomic_folder.h"

#include <string>
#include <system_error>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/printable.h"

namespace longshore {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& what, std::error_code error) {
  throw FileError(path_text(path) + ": " + what + ": " + error.message());
}

bool is_free(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) fail(path, "cannot be looked at", error);
  if (status.type() == fs::file_type::not_found) return !fs::is_symlink(path, error);
  return fs::is_directory(status) && fs::is_empty(path, error) && !error;
}

fs::path numbered(const fs::path& path, int number) {
  return path.string() + "-" + std::to_string(number);
}

// The absolute path of the folder, without links and without a slash at the end.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) fail(path, "cannot be resolved", error);
  return whole.has_filename() ? whole : whole.parent_path();
}

}  // namespace

AtomicFolder::AtomicFolder(const fs::path& path) : path_(resolved(path)) {
  if (!is_free(path_)) {
    int number = 2;
    while (!is_free(numbered(path_, number))) ++number;
    throw ConfigError(path_text(path_) +
                      ": found something there, expected nothing or an empty folder; nearest: " +
                      path_text(numbered(path_, number)));
  }
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  if (error) fail(path_.parent_path(), "cannot make the folder", error);
  temporary_ = make_partial_folder(path_);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!is_finished_) fs::remove_all(directory(), ignored);
}

void AtomicFolder::finish() {
  sync_folder(directory());
  std::error_code error;
  fs::rename(directory(), path_, error);
  if (error) fail(directory(), "cannot rename to " + path_text(path_), error);
  is_finished_ = true;
  sync_folder(path_.parent_path());
  sync_folder(path_.parent_path().parent_path());  // the parent may be new as well
}

}  // namespace longshore
