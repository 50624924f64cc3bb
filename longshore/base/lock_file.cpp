#include "longshore/base/lock_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <thread>
#include <utility>

#include "longshore/base/file_lock.h"

namespace longshore {
namespace {

// Whether the file still has that name: who held it before may have removed it.
bool has_name(const FileDescriptor& file, const std::filesystem::path& path) {
  struct stat own, named;
  return fstat(file.number(), &own) == 0 && stat(path.c_str(), &named) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

}  // namespace

LockFile::LockFile(std::filesystem::path path, const std::function<void()>& stops)
    : path_(std::move(path)) {
  constexpr std::chrono::milliseconds kBetweenTries(50);
  while (true) {
    FileDescriptor file(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file.is_open()) return;
    const FileLock lock = try_lock(file);
    if (lock == FileLock::held_elsewhere) {
      stops();
      std::this_thread::sleep_for(kBetweenTries);
    } else if (lock == FileLock::unavailable || has_name(file, path_)) {
      file_ = std::move(file);
      return;
    }
  }
}

LockFile::~LockFile() {
  if (file_.is_open()) unlink(path_.c_str());  // before the lock is given back
}

}  // namespace longshore
