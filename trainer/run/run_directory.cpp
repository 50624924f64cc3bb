#include "trainer/run/run_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/partial_name.h"
#include "base/printable.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/run_files.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = "lock";

// A new folder, named by config and time, and by a number where that name is taken: only a run_name
// in the config resumes a run.
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

std::string owner(const FileDescriptor& file) {
  char text[32] = {};
  const ssize_t count = pread(file.number(), text, sizeof text - 1, 0);
  return count > 0 ? "process " + printable({text, static_cast<size_t>(count)}) : "a process";
}

// The lock file of the folder, with this process's number in it. Without locks nobody is kept out.
FileDescriptor locked(const fs::path& folder, const Config& config) {
  const fs::path path = folder / kLockFile;
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  auto fail = [&] {
    throw FileError(path_text(path) + ": cannot be written: " + std::strerror(errno));
  };
  if (!file.is_open()) fail();
  if (try_lock(file) == FileLock::held_elsewhere)
    throw ConfigError(location(config, "run_name") + ": " + path_text(folder) + ": " + owner(file) +
                      " trains there; nearest: another run_name, or none");
  const std::string pid = std::to_string(getpid());
  if (ftruncate(file.number(), 0) != 0 ||
      pwrite(file.number(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
    fail();
  return file;
}

}  // namespace

RunDirectory::RunDirectory(const Config& config) {
  std::error_code error;
  fs::create_directories(config.base_output_directory, error);
  path_ = config.run_name.empty() ? new_directory(config)
                                  : config.base_output_directory / config.run_name;
  fs::create_directories(path_, error);
  if (error) throw FileError(path_text(path_) + ": cannot be made: " + error.message());
  lock_ = locked(path_, config);
  remove_leftovers(path_);
  remove_leftovers(path_ / kCheckpointsFolder);
}

}  // namespace longshore::trainer
