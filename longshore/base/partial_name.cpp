#include "longshore/base/partial_name.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/file_lock.h"
#include "longshore/base/printable.h"

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

std::vector<fs::path> partials(const fs::path& folder, std::string_view beginning) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder.empty() ? "." : folder, error))
    if (const std::string name = entry.path().filename().string();
        name.starts_with(beginning) && is_partial(name))
      found.push_back(entry.path());
  return found;
}

// How partial files and folders are opened to be locked. A pipe with such a name is not waited for.
constexpr int kForFile = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
              kForFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

void remove_abandoned(const fs::path& path, int flags) {
  const std::string beginning = path.filename().string() + std::string(kPartial);
  for (const fs::path& partial : partials(path.parent_path(), beginning)) {
    const FileDescriptor opened(open(partial.c_str(), flags));
    std::error_code ignored;
    if (opened.is_open() && try_lock(opened) == FileLock::taken) fs::remove_all(partial, ignored);
  }
}

// Whether it is still there, and kept from remove_abandoned(). Another process may have found it
// before it was.
bool keeps(const FileDescriptor& file) {
  if (try_lock(file) == FileLock::held_elsewhere) return false;
  struct stat status;
  return fstat(file.number(), &status) == 0 && status.st_nlink > 0;
}

}  // namespace

fs::path partial_name(const fs::path& path) {
  return path.string() + std::string(kPartial) + std::to_string(getpid());
}

fs::path partial_name(const fs::path& path, int number) {
  return partial_name(path).string() + "-" + std::to_string(number);
}

PartialFile make_partial_file(const fs::path& path) {
  remove_abandoned(path, kForFile);
  for (int number = 0;; ++number) {
    const fs::path name = partial_name(path, number);
    FileDescriptor file(open(name.c_str(), kForFile | O_CREAT | O_EXCL, 0666));
    if (!file.is_open() && errno != EEXIST)
      throw FileError(path_text(path) + ": cannot create: " + std::strerror(errno));
    if (file.is_open() && keeps(file)) return {name, std::move(file)};
  }
}

PartialFile make_partial_folder(const fs::path& path) {
  remove_abandoned(path, kForFolder);
  for (int number = 0;; ++number) {
    const fs::path name = partial_name(path, number);
    std::error_code error;
    const bool is_new = fs::create_directory(name, error);
    if (error) throw FileError(path_text(name) + ": cannot make the folder: " + error.message());
    if (!is_new) continue;
    FileDescriptor folder(open(name.c_str(), kForFolder));
    if (!folder.is_open() && errno != ENOENT) {  // as where the umask lets nobody read it
      const std::string why = std::strerror(errno);
      fs::remove(name, error);
      throw FileError(path_text(name) + ": cannot open the folder: " + why);
    }
    if (folder.is_open() && keeps(folder)) return {name, std::move(folder)};
  }
}

void remove_leftovers(const fs::path& folder) {
  for (const fs::path& path : partials(folder, "")) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) throw FileError(path_text(path) + ": cannot be removed: " + error.message());
  }
}

}  // namespace longshore
