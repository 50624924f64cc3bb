#include "longshore/base/file_inside.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"

namespace longshore {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, mode_t found, mode_t expected) {
  throw DataError(path_text(path) + ": found " + kind_of_file(found) + ", expected " +
                  kind_of_file(expected) + " in that very folder");
}

void require_kind(const fs::path& path, mode_t expected) {
  struct stat status;
  if (lstat(path.c_str(), &status) == 0 && (status.st_mode & S_IFMT) != expected)
    refuse(path, status.st_mode, expected);
}

// What is written to a file goes to every name that it has, wherever those are.
void require_one_name(const fs::path& path, const struct stat& status, int flags) {
  if ((flags & O_ACCMODE) == O_RDONLY || !S_ISREG(status.st_mode) || status.st_nlink <= 1) return;
  throw DataError(path_text(path) + ": found a file with " + std::to_string(status.st_nlink) +
                  " names (hard links), expected one: what is written there would change the "
                  "others; nearest: a copy in its place");
}

// Opens `name` in the folder unless it is of another kind; `path` is how messages call it. It is
// looked at first, for some devices act when they are opened, and again when it is open.
FileDescriptor open_kind(int folder, const fs::path& name, int flags, mode_t expected,
                         const fs::path& path) {
  struct stat status;
  auto require_own = [&] {
    if ((status.st_mode & S_IFMT) != expected) refuse(path, status.st_mode, expected);
    require_one_name(path, status, flags);
  };
  if (fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) require_own();
  FileDescriptor opened(
      openat(folder, name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (opened.is_open() && fstat(opened.number(), &status) == 0) require_own();
  return opened;
}

}  // namespace

std::string kind_of_file(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a regular file";
    case S_IFDIR:
      return "a folder";
    case S_IFLNK:
      return "a symbolic link";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

bool is_path_below(const std::string& path) {
  if (path.find('\0') != std::string::npos) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    if (name.empty() || name == "." || name == "..") return false;
    begin = end + 1;
  }
  return true;
}

FileDescriptor open_inside(const fs::path& folder, const fs::path& below, int flags) {
  if (!is_path_below(below.string()))
    throw DataError(path_text(below) + ": expected the path of a file below " + path_text(folder));
  FileDescriptor at(open(folder.empty() ? "." : folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  fs::path so_far = folder;
  const fs::path parents = below.parent_path();
  for (const fs::path& name : parents) {
    if (!at.is_open()) return at;
    so_far /= name;
    at = open_kind(at.number(), name, O_RDONLY | O_DIRECTORY, S_IFDIR, so_far);
  }
  if (!at.is_open()) return at;
  return open_kind(at.number(), below.filename(), flags, S_IFREG, folder / below);
}

std::string read_inside(const fs::path& folder, const fs::path& below, size_t most_bytes,
                        const std::string& why) {
  const std::string path = path_text(folder / below);
  auto fail = [&] { throw DataError(path + ": cannot be read: " + std::strerror(errno)); };
  const FileDescriptor file = open_inside(folder, below, O_RDONLY);
  struct stat status;
  if (!file.is_open() || fstat(file.number(), &status) != 0) fail();
  std::string text;
  // A byte more than it had, so that the end is seen of a file that grows meanwhile.
  text.resize(std::min(static_cast<size_t>(status.st_size), most_bytes) + 1);
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = read(file.number(), text.data() + size, text.size() - size);
    if (count < 0 && errno != EINTR) fail();
    if (count == 0) break;
    if (count > 0) size += static_cast<size_t>(count);
  }
  if (size > most_bytes)
    throw DataError(path + ": found " + std::to_string(status.st_size) +
                    " bytes, expected at most " + std::to_string(most_bytes) + ": " + why);
  text.resize(size);
  return text;
}

void require_regular_file(const fs::path& path) { require_kind(path, S_IFREG); }
void require_folder(const fs::path& path) { require_kind(path, S_IFDIR); }

void make_folder(const fs::path& path) {
  require_folder(path);
  std::error_code error;
  fs::create_directory(path, error);
  if (error) throw FileError(path_text(path) + ": cannot make the folder: " + error.message());
}

void require_regular_files(const fs::path& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat status;
    if (lstat(entry->path().c_str(), &status) == 0 && !S_ISDIR(status.st_mode) &&
        !S_ISREG(status.st_mode))
      refuse(entry->path(), status.st_mode, S_IFREG);
  }
  if (error) throw DataError(path_text(folder) + ": cannot be read: " + error.message());
}

fs::path folder_inside(const fs::path& folder, const std::string& name) {
  auto refuse = [&](const char* found) {
    throw DataError(path_text(folder / name) + ": found " + found +
                    ", expected a folder, or a link to one, below " + path_text(folder));
  };
  std::error_code error;
  const bool is_link = fs::is_symlink(folder / name, error);
  const fs::path found = fs::canonical(folder / name, error);
  if (error) refuse(is_link ? "a symbolic link to nothing" : "nothing");
  const fs::path whole = fs::canonical(folder, error);
  const auto [rest, ignored] = std::ranges::mismatch(whole, found);
  if (error || rest != whole.end()) refuse("a symbolic link that leads elsewhere");
  if (!fs::is_directory(found, error)) refuse("no folder");
  return folder / name;
}

}  // namespace longshore
