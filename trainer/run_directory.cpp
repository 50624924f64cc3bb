#include "trainer/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "trainer/checkpoint/checkpoint.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = "lock";

// By config and time, and a number where that is taken: only a name that was given resumes.
fs::path new_directory(const Config& config) {
  const std::time_t now = std::time(nullptr);
  char time[32];
  std::strftime(time, sizeof time, "%Y%m%d-%H%M%S", std::localtime(&now));
  const fs::path path =
      config.base_output_directory / (fs::path(config.config_file).stem().string() + "-" + time);
  fs::path directory = path;
  std::error_code error;
  for (int number = 2; !fs::create_directory(directory, error) && !error; ++number)
    directory = path.string() + "-" + std::to_string(number);
  return directory;
}

std::string owner(int file) {
  char text[32] = {};
  const ssize_t count = pread(file, text, sizeof text - 1, 0);
  return count > 0 ? "process " + std::string(text, static_cast<size_t>(count)) : "a process";
}

}  // namespace

RunDirectory::RunDirectory(const Config& config) {
  std::error_code error;
  fs::create_directories(config.base_output_directory, error);
  path_ = config.run_name.empty() ? new_directory(config)
                                  : config.base_output_directory / config.run_name;
  fs::create_directories(path_, error);
  if (error) throw Error(path_.string() + ": cannot be made: " + error.message());
  lock(config);
  try {
    remove_leftovers(path_);
    remove_leftovers(path_ / kCheckpointsFolder);
  } catch (...) {
    close(lock_);
    throw;
  }
}

// The kernel gives the lock back when the process ends, however it does.
void RunDirectory::lock(const Config& config) {
  const fs::path file = path_ / kLockFile;
  lock_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) throw Error(file.string() + ": cannot be written: " + std::strerror(errno));
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    const std::string reason =
        errno == EWOULDBLOCK ? owner(lock_) + " trains there" : std::strerror(errno);
    close(lock_);
    throw ConfigError(location(config, "run_name") + ": " + path_.string() + ": " + reason +
                      ". Nearest: another run_name, or none");
  }
  const std::string pid = std::to_string(getpid());
  if (ftruncate(lock_, 0) != 0 ||
      pwrite(lock_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    const std::string reason = std::strerror(errno);
    close(lock_);
    throw Error(file.string() + ": cannot be written: " + reason);
  }
}

RunDirectory::~RunDirectory() {
  if (lock_ >= 0) close(lock_);
}

}  // namespace longshore::trainer
